"""Logbooks and digests as Markdown and as one HTML page that needs nothing else. Pure.

What people wrote is escaped before anything is made of it: nothing in a note can run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from trackyard.insight.logbook.digest import ActivityDigest
from trackyard.insight.logbook.entries import FieldDifference, Logbook, LogbookEntry
from trackyard.insight.logbook.words import clock, day

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 860px; margin: 32px auto; }
h1 { font-size: 22px; } h2 { font-size: 15px; margin: 28px 0 6px; border-bottom: 1px solid #8884; }
article { display: grid; grid-template-columns: 52px 1fr; gap: 10px; padding: 3px 0; }
article:target { background: #fd04; }
time, .hint { opacity: 0.65; } time a { color: inherit; text-decoration: none; }
.bad { border-left: 3px solid #d33; padding-left: 7px; }
.good { border-left: 3px solid #2a2; padding-left: 7px; }
.warn { border-left: 3px solid #c80; padding-left: 7px; }
.plain { border-left: 3px solid #8884; padding-left: 7px; }
table { border-collapse: collapse; font-size: 13px; }
td, th { border: 1px solid #8884; padding: 1px 8px; text-align: left; }
pre { overflow: auto; background: #8882; padding: 8px; } img { max-width: 100%; }
"""
_MARK = re.compile(r"([\\`*_\[\]<>|])")


def _plain(text: str) -> str:
    """Escape what Markdown would take for a sign."""
    return _MARK.sub(r"\\\1", text)


def logbook_markdown(book: Logbook) -> str:
    """Write a logbook as Markdown."""
    lines = [f"# Logbook of {book.subject} {_plain(book.name)}", ""]
    for title, entries in _by_day(book.entries):
        lines += [f"## {title}", ""]
        for entry in entries:
            lines += _markdown(entry, with_run=book.subject != "run")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _by_day(entries: Sequence[LogbookEntry]) -> list[tuple[str, list[LogbookEntry]]]:
    found: list[tuple[str, list[LogbookEntry]]] = []
    for entry in entries:
        title = day(entry.time_ms)
        if not found or found[-1][0] != title:
            found.append((title, []))
        found[-1][1].append(entry)
    return found


def _is_unnamed(entry: LogbookEntry) -> bool:
    """Whether an entry has a run that its sentence does not name."""
    return bool(entry.run_name) and entry.run_name not in entry.sentence


def _markdown(entry: LogbookEntry, *, with_run: bool) -> list[str]:
    run = f"{_plain(entry.run_name)}: " if with_run and _is_unnamed(entry) else ""
    hint = " *(found by rule)*" if entry.is_suggestion else ""
    lines = [f"- **{clock(entry.time_ms)}** {run}{_plain(entry.sentence)}{hint}"]
    if entry.detail:
        lines += ["", *(f"  {line}".rstrip() for line in entry.detail.splitlines()), ""]
    for one in entry.differences:
        before, after = _plain(one.before) or "none", _plain(one.after) or "none"
        lines.append(f"  - {one.what} {_plain(one.name)}: {before} → {after}")
    lines += [f"  - picture: {_plain(path)}" for path in entry.pictures]
    return lines


def logbook_html(book: Logbook) -> str:
    """Write a logbook as a page of its own."""
    title = f"Logbook of {book.subject} {book.name}"
    body = [f"<h1>{escape(title)}</h1>"]
    for heading, entries in _by_day(book.entries):
        body.append(f"<h2>{escape(heading)}</h2>")
        body += [_html(entry, with_run=book.subject != "run") for entry in entries]
    return _page(title, "\n".join(body))


def _html(entry: LogbookEntry, *, with_run: bool) -> str:
    run = f"<b>{escape(entry.run_name)}</b> " if with_run and _is_unnamed(entry) else ""
    hint = ' <span class="hint">(found by rule)</span>' if entry.is_suggestion else ""
    anchor = escape(entry.id)
    pictures = "".join(f"<div>picture: {escape(path)}</div>" for path in entry.pictures)
    return (
        f'<article id="{anchor}"><time><a href="#{anchor}">{clock(entry.time_ms)}</a></time>'
        f'<div class="{escape(entry.tone)}">{run}{escape(entry.sentence)}{hint}'
        f"{markdown_html(entry.detail)}{_table(entry.differences)}{pictures}</div></article>"
    )


def _table(differences: Sequence[FieldDifference]) -> str:
    if not differences:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one.what)}</td><td>{escape(one.name)}</td>"
        f"<td>{escape(one.before)}</td><td>{escape(one.after)}</td></tr>"
        for one in differences
    )
    return f"<table><tr><th></th><th></th><th>before</th><th>after</th></tr>{rows}</table>"


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def markdown_html(text: str) -> str:
    """Make HTML of the Markdown that notes use: paragraphs, lists, code, emphasis, links."""
    found: list[str] = []
    for place, part in enumerate(re.split(r"^```.*$", text, flags=re.MULTILINE)):
        if place % 2:
            found.append(f"<pre>{escape(part.strip(chr(10)))}</pre>")
            continue
        found += [_block(block) for block in re.split(r"\n\s*\n", part) if block.strip()]
    return "".join(found)


def _block(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines()]
    heading = re.match(r"#{1,6}\s+(.*)", lines[0])
    if heading is not None and len(lines) == 1:
        return f"<p><b>{_inline(heading[1])}</b></p>"
    if all(re.match(r"[-*+]\s", line) for line in lines):
        items = "".join(f"<li>{_inline(line[2:])}</li>" for line in lines)
        return f"<ul>{items}</ul>"
    return f"<p>{_inline(' '.join(lines))}</p>"


def _inline(text: str) -> str:
    parts = re.split(r"(`[^`]+`)", escape(text))
    return "".join(
        f"<code>{part[1:-1]}</code>" if part.startswith("`") and len(part) > 2 else _emphasis(part)
        for part in parts
    )


def _emphasis(text: str) -> str:
    text = re.sub(
        r"\[([^\[\]]+)\]\((https?://[^\s()&\"']+)\)", r'<a href="\2" rel="noreferrer">\1</a>', text
    )
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)", r"<em>\1</em>", text)


def digest_markdown(digest: ActivityDigest) -> str:
    """Write a digest as Markdown."""
    lines = [f"# {_plain(digest.team)}: {digest.period}", ""]
    lines += [f"- {_plain(sentence)}" for sentence in digest.sentences]
    if digest.causes:
        lines += ["", "## How attempts ended", "", "| cause | attempts | GPU-hours lost |"]
        lines += ["|---|---|---|"]
        lines += [
            f"| {one.words} | {one.attempts} | {one.lost_gpu_hours:.1f} |" for one in digest.causes
        ]
    if digest.nodes:
        lines += [
            "",
            "## Nodes with trouble",
            "",
            "| node | bad ends | outages |",
            "|---|---|---|",
        ]
        lines += [
            f"| {_plain(one.node)} | {one.failures} | {one.outages} |" for one in digest.nodes
        ]
    if digest.notes:
        lines += ["", "## Notes", ""]
        for note in digest.notes:
            run = f" on {_plain(note.run_name)}" if note.run_name else ""
            lines += [f"- **{day(note.time_ms)}**, {_plain(note.actor)}{run}:", ""]
            lines += [*(f"  {line}".rstrip() for line in note.detail.splitlines()), ""]
    return "\n".join(lines).rstrip() + "\n"


def digest_html(digest: ActivityDigest) -> str:
    """Write a digest as a page of its own."""
    title = f"{digest.team}: {digest.period}"
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in digest.sentences)
    body = [f"<h1>{escape(title)}</h1><ul>{items}</ul>"]
    if digest.causes:
        rows = "".join(
            f"<tr><td>{escape(one.words)}</td><td>{one.attempts}</td>"
            f"<td>{one.lost_gpu_hours:.1f}</td></tr>"
            for one in digest.causes
        )
        head = "<tr><th>cause</th><th>attempts</th><th>GPU-hours lost</th></tr>"
        body.append(f"<h2>How attempts ended</h2><table>{head}{rows}</table>")
    if digest.nodes:
        rows = "".join(
            f"<tr><td>{escape(one.node)}</td><td>{one.failures}</td><td>{one.outages}</td></tr>"
            for one in digest.nodes
        )
        head = "<tr><th>node</th><th>bad ends</th><th>outages</th></tr>"
        body.append(f"<h2>Nodes with trouble</h2><table>{head}{rows}</table>")
    if digest.notes:
        body.append("<h2>Notes</h2>")
        body += [_html(note, with_run=True) for note in digest.notes]
    return _page(title, "\n".join(body))
