"""Reports: pages that show a conversion in a browser, and that need nothing but themselves."""
