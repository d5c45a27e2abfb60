import sys

from layoutsolve.cli import main

if __name__ == "__main__":
    sys.exit(main())
