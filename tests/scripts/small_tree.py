"""Small trees of files on which the scripts that guard the sources are tried."""
import pathlib
import subprocess
import sys
import tempfile


def run_on(script, files):
    """Runs a script on a new folder that has these files (path -> text; None: not there). Returns what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            if text is None:
                continue
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=False)
