"""Python imports this before a program that `flyball account -- CMD` runs, and then the sitecustomize that the program
would have had without it."""

import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))
try:
    if sys.version_info >= (3, 8):
        import flyball_outside

        flyball_outside.arm()
except Exception as error:  # whatever is wrong here, the program runs
    sys.stderr.write("flyball: warning: this Python process is not profiled: %s\n" % error)
finally:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _folder]

_own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401  the program's own
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
finally:
    if _own is not None:
        sys.modules.setdefault("sitecustomize", _own)
