"""Suggestions of the shell while SQL is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ducklake_spark.api.completion import Names, starting, suggestions


class SqlCompleter(Completer):
    """Suggests what may stand at the cursor."""

    def __init__(self, names: Names, dialect: Callable[[], str], commands: Iterable[str]) -> None:
        self._names, self._dialect, self._commands = names, dialect, sorted(commands)

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - prompt_toolkit gives it
    ) -> Iterator[Completion]:
        text, cursor = document.text, document.cursor_position
        found = suggestions(self._names, text, cursor, self._dialect())
        if text.startswith("."):
            command, space, argument = document.text_before_cursor.partition(" ")
            # What commands take is a table.
            typed = f"FROM {argument}"
            found = (
                suggestions(self._names, typed, len(typed), self._dialect())
                if space
                else starting(command, self._commands, "command")
            )
        for each in found:
            yield Completion(each.text, -each.replaced, display=each.shown, display_meta=each.kind)
