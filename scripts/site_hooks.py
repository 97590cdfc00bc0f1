"""What `make site` does beyond MkDocs: pages made from the program, and links that leave docs/.

A document may link to any file of the repository. Such a file becomes a page below tree/, sources as code. The reference
of the commands is what the program itself prints as their help. Called by MkDocs (mkdocs.yml, `hooks`).
"""

import logging
import os
import pathlib
import posixpath
import re
import subprocess

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
LOG = logging.getLogger("mkdocs.hooks.site")
CHECK_COMMENT = re.compile(r"^[ ]*<!-- check:.*?-->[ ]*\n", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```.*?^```[^\n]*$", re.DOTALL | re.MULTILINE)
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".toml": "toml", ".json": "json", ".js": "js", ".yml": "yaml"}
LONGEST_SOURCE = 100_000  # bytes of a file that is shown on a page
MOST_WORDS = 1500  # of a page of the manual; those whose tables a program writes may be longer
WRITTEN_BY_PROGRAMS = ("paper-tables.md", "measured-tables.md", "cluster-results.md", "real-runs.md")


def links_out(source, text):
    """The paths below the root that a page links to and that are not in docs/; `source` is the page's path, from the root."""
    for match in LINK.finditer(text):
        path = match[2].partition("#")[0]
        if not path or ":" in path or path.startswith("/"):
            continue
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not target.startswith("docs/") and (ROOT / target).exists():
            yield target


def page_of(target):
    """Where the page of a file outside docs/ lies, from docs/. A folder's page is its README, where it has one."""
    if (ROOT / target).is_dir():
        target = f"{target}/README.md" if (ROOT / target / "README.md").exists() else f"{target}/index.md"
    return f"tree/{target}" if target.endswith(".md") else f"tree/{target}.md"


def text_of(target):
    path = ROOT / target
    if path.is_dir():
        if (path / "README.md").exists():
            return (path / "README.md").read_text()
        listed = subprocess.run(["git", "ls-files", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return f"# {target}\n\n```\n{listed}```\n"
    text = path.read_text()
    if target.endswith(".md"):
        return text
    if len(text) > LONGEST_SOURCE:
        text = text[:LONGEST_SOURCE] + "\n...\n"
    return f"# {target}\n\n~~~~~~{LANGUAGES.get(path.suffix, '')}\n{text}~~~~~~\n"


def commands(program, words=()):
    """The help of a command and of those below it, as the program prints it: pairs of words and text."""
    text = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    if not re.search(rf"^Usage: {' '.join(('flyball', *words))}( [^a-z]|$| COMMAND)", text, re.MULTILINE):
        return  # not a command but something else in a list
    yield words, text
    for name in re.findall(r"^  ([a-z][a-z-]*)(?:  .*)?$", text, re.MULTILINE):
        if name not in ("help", "flyball", *words):
            yield from commands(program, (*words, name))


def command_page(program):
    text = "# Commands\n\nThis page is what `flyball help` prints for every command.\n"
    for words, help_text in commands(program):
        text += f"\n## {' '.join(('flyball', *words))}\n\n```\n{help_text.rstrip()}\n```\n"
    return text


def on_files(files, config):
    program = os.environ.get("FLYBALL_PROGRAM", str(ROOT / "build" / "flyball"))
    if not os.access(program, os.X_OK):
        raise PluginError(f"{program} is missing, which prints the reference of commands; mend: make build")
    files.append(File.generated(config, "commands.md", content=command_page(program)))
    wanted = {"CHANGELOG.md", "CONTRIBUTING.md"}
    for file in files.documentation_pages():
        if file.abs_src_path:
            wanted |= set(links_out(f"docs/{file.src_uri}", pathlib.Path(file.abs_src_path).read_text()))
    made = set()
    while wanted:
        target = wanted.pop()
        if page_of(target) in made:
            continue
        made.add(page_of(target))
        text = text_of(target)
        files.append(File.generated(config, page_of(target), content=text))
        if page_of(target).endswith(target) or (ROOT / target).is_dir():
            wanted |= set(links_out(page_of(target)[len("tree/"):], text))
    return files


def on_page_markdown(markdown, page, config, files):
    source = page.file.src_uri
    in_tree = source.startswith("tree/")
    source = source[len("tree/"):] if in_tree else f"docs/{source}"

    def mended(match):
        path, mark, anchor = match[2].partition("#")
        if not path or ":" in path or path.startswith("/"):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if target.startswith("docs/"):
            goal = target[len("docs/"):]
        elif (ROOT / target).exists():
            goal = page_of(target)
        else:
            return match[0]
        if files.get_file_from_path(goal) is None and files.get_file_from_path(f"{goal}/README.md"):
            goal += "/README.md"
        start = posixpath.dirname(f"tree/{source}" if in_tree else source[len("docs/"):])
        return match[1] + posixpath.relpath(goal, start or ".") + mark + anchor + match[3]

    if in_tree and not source.endswith(".md"):
        return markdown  # a source: its brackets are no links
    markdown = CHECK_COMMENT.sub("", markdown)
    words = sum(1 for word in markdown.split() if re.search(r"[A-Za-z0-9]", word))
    if words > MOST_WORDS and not source.startswith("docs/decisions/") and not in_tree and \
            page.file.src_uri not in WRITTEN_BY_PROGRAMS and page.file.src_uri != "commands.md":
        LOG.warning("%s has %d words, and a page of the manual at most %d: split it", source, words, MOST_WORDS)
    parts, at = [], 0
    for code in CODE.finditer(markdown):
        parts += [LINK.sub(mended, markdown[at:code.start()]), code[0]]
        at = code.end()
    return "".join(parts) + LINK.sub(mended, markdown[at:])
