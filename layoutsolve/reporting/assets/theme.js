"use strict";
// The switch between light and dark: what the system prefers until somebody says otherwise.
(() => {
  const root = document.documentElement;
  const button = document.querySelector(".theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const told = () => {
    button.textContent = dark() ? "Light" : "Dark";
    dispatchEvent(new Event("themed"));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    told();
  });
  system.addEventListener("change", told);
  told();
})();
