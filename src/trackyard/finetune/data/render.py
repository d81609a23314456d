"""Rows as tokens: chat templates, prompts in Alpaca's manner, and the mask of what is learned.

Owns which tokens the model is to learn: by default what the assistant says and the end of it,
nothing else. Works on any tokenizer of transformers that gives offsets; imports none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.finetune.data.rows import ChatTurn, DataRow
from trackyard.finetune.recipe import DataPart

_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request."
)
_WITHOUT = (
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request."
)


@dataclass(frozen=True, slots=True)
class Text:
    """A row as text, with the spans of characters that are learned."""

    text: str
    spans: tuple[tuple[int, int], ...]
    #: whether the tokenizer's own start and end tokens are still to be added
    is_bare: bool


class Renderer:
    """Turns rows into tokens and masks with one tokenizer."""

    def __init__(self, tokenizer: Any, part: DataPart) -> None:
        self._tokenizer = tokenizer
        self._part = part
        self._has_template = bool(getattr(tokenizer, "chat_template", None))
        if part.template == "chat" and not self._has_template:
            raise SetupError(
                "data.template is chat, but the tokenizer has no chat template",
                hint="use data.template: alpaca or plain, or a tokenizer of a chat model",
            )

    def tokens(self, row: DataRow) -> tuple[list[int], list[bool]]:
        """Return a row's tokens and which of them are learned."""
        made = self.text(row)
        encoded = self._tokenizer(
            made.text, add_special_tokens=made.is_bare, return_offsets_mapping=True
        )
        ids = list(encoded["input_ids"])
        learned = [_touches(start, end, made.spans) for start, end in encoded["offset_mapping"]]
        end = self._tokenizer.eos_token_id
        if made.is_bare and end is not None:
            if not ids or ids[-1] != end:
                ids.append(end)
                learned.append(True)
            learned[-1] = True
        return ids, learned

    def text(self, row: DataRow) -> Text:
        """Return a row as text, with what is learned of it."""
        if not row.turns:
            return Text(row.text, ((0, len(row.text)),), is_bare=True)
        chosen = self._part.template
        if chosen == "chat" or (chosen == "auto" and self._has_template):
            made = self._chat(row.turns)
        elif chosen == "alpaca" or (chosen == "auto" and _is_instruction(row.turns)):
            made = _alpaca(row.turns)
        else:
            made = _joined(row.turns)
        if self._part.train_on_prompt:
            return Text(made.text, ((0, len(made.text)),), is_bare=made.is_bare)
        return made

    def _chat(self, turns: tuple[ChatTurn, ...]) -> Text:
        messages = _merge_input(turns)
        whole = self._template(messages)
        spans = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self._template(messages[:number], prompt=True)
            until = self._template(messages[: number + 1])
            if not (until.startswith(before) and whole.startswith(until)):
                raise SetupError(
                    "the chat template renders a turn differently once another follows, so what "
                    "the assistant said cannot be told apart",
                    hint="set data.train_on_prompt: true, or data.template: plain",
                )
            spans.append((len(before), len(until)))
        return Text(whole, tuple(spans), is_bare=False)

    def _template(self, messages: list[dict[str, str]], *, prompt: bool = False) -> str:
        if not messages:
            return ""
        text: str = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=prompt
        )
        return text

    def prompt(self, text: str) -> list[int]:
        """Return the tokens that ask for an answer to `text`, for samples while training."""
        turns = (ChatTurn("user", text),)
        chosen = self._part.template
        if chosen == "chat" or (chosen == "auto" and self._has_template):
            asked = self._template(_merge_input(turns), prompt=True)
            return list(self._tokenizer(asked, add_special_tokens=False)["input_ids"])
        asked = _alpaca((*turns, ChatTurn("assistant", ""))).text if chosen == "alpaca" else text
        return list(self._tokenizer(asked)["input_ids"])


def _touches(start: int, end: int, spans: tuple[tuple[int, int], ...]) -> bool:
    return end > start and any(start < stop and end > first for first, stop in spans)


def _is_instruction(turns: tuple[ChatTurn, ...]) -> bool:
    return [turn.role for turn in turns if turn.role != "input"] == ["user", "assistant"]


def _merge_input(turns: tuple[ChatTurn, ...]) -> list[dict[str, str]]:
    messages: list[dict[str, str]] = []
    for turn in turns:
        if turn.role == "input" and messages:
            messages[-1]["content"] += f"\n\n{turn.text}"
        else:
            messages.append({"role": turn.role, "content": turn.text})
    return messages


def _alpaca(turns: tuple[ChatTurn, ...]) -> Text:
    said = {turn.role: turn.text for turn in turns}
    parts = [_WITH_INPUT if "input" in said else _WITHOUT]
    parts.append(f"### Instruction:\n{said.get('user', '')}")
    if "input" in said:
        parts.append(f"### Input:\n{said['input']}")
    prompt = "\n\n".join(parts) + "\n\n### Response:\n"
    answer = said.get("assistant", "")
    return Text(prompt + answer, ((len(prompt), len(prompt) + len(answer)),), is_bare=True)


def _joined(turns: tuple[ChatTurn, ...]) -> Text:
    text, spans = "", []
    for turn in turns:
        if text and not text[-1].isspace() and turn.text[:1].strip():
            text += "\n"
        if turn.role == "assistant":
            spans.append((len(text), len(text) + len(turn.text)))
        text += turn.text
    return Text(text, tuple(spans), is_bare=True)
