"""What all our statement parsers use: words, names, types, and pieces of text, on top of sqlglot's parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from sqlglot import TokenType, exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import DataType, parse_type, quote
from ducklake_spark.sql.parser.nodes import Name, Piece, SortKey

if TYPE_CHECKING:
    from sqlglot.parser import Parser
    from sqlglot.tokenizer_core import Token
else:
    Parser = object

T = TypeVar("T")

_NOT_WORDS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
_NAMES_END = frozenset(
    {
        TokenType.L_PAREN,
        TokenType.R_PAREN,
        TokenType.COMMA,
        TokenType.DOT,
        TokenType.EQ,
        TokenType.NUMBER,
        TokenType.STRING,
        TokenType.SEMICOLON,
        TokenType.STAR,
        TokenType.L_BRACKET,
        TokenType.R_BRACKET,
        TokenType.LT,
        TokenType.GT,
        TokenType.COLON,
    }
)
QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT")

_DUCKDB_TYPES = {"int8": "bigint", "integral": "integer", "nvarchar": "varchar", "oid": "bigint"}
"""Names that mean something else in DuckDB than among the lake's own types, or are DuckDB's alone."""
_TIMESTAMP_DIGITS = {0: "timestamp_s", 3: "timestamp_ms", 6: "timestamp", 9: "timestamp_ns"}
_INTERVAL_WORDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO")


class Words(Parser):
    """Helpers. The two methods of each kind: `_take_` looks and may find nothing, `_need_` raises."""

    # Words.

    def _words_ahead(self, words: tuple[str, ...]) -> int:
        """How many tokens these words are, 0 if they are not what comes next. Quoted names are no words."""
        left, index = list(words), self._index
        while left:
            token = self._tokens[index] if index < len(self._tokens) else None
            if token is None or token.token_type in _NOT_WORDS:
                return 0
            parts = token.text.upper().split()
            if not parts or left[: len(parts)] != parts:
                return 0
            del left[: len(parts)]
            index += 1
        return index - self._index

    def _at(self, *words: str) -> bool:
        return self._words_ahead(words) > 0

    def _at_any(self, *words: str) -> bool:
        return any(self._at(word) for word in words)

    def _take(self, *words: str) -> bool:
        count = self._words_ahead(words)
        if count:
            self._advance(count)
        return count > 0

    def _need(self, *words: str) -> None:
        if not self._take(*words):
            self._fail(f"expected {' '.join(words)}")

    def _fail(self, reason: str) -> NoReturn:
        """Raises with the place."""
        found = f"found {self._curr.text!r}" if self._curr else "found the end"
        self.raise_error(f"{reason}, {found}")
        raise AssertionError("raise_error raises")

    def _refuse(self, construct: str, way_out: str) -> NoReturn:
        raise InvalidInputError(f"{construct} cannot be done in a lake: {way_out}.")

    def _take_mark(self, mark: TokenType) -> bool:
        return bool(self._match(mark))

    def _need_mark(self, mark: TokenType, text: str) -> None:
        if not self._match(mark):
            self._fail(f"expected {text}")

    def _need_end(self) -> None:
        if self._curr:
            self._fail("expected the end of the statement")

    # Names and values.

    def _need_part(self) -> str:
        """One part of a name; a word that is not quoted may be a keyword."""
        token = self._curr
        if not token or token.token_type in _NAMES_END:
            self._fail("expected a name")
        if token.token_type != TokenType.IDENTIFIER and not _is_word(token.text):
            self._fail("expected a name")
        if token.token_type == TokenType.IDENTIFIER and not token.text:
            self._fail("a name cannot be empty")
        self._advance()
        # The tokenizer keeps the case and resolves doubled quotes.
        return str(token.text)

    def _need_name(self) -> Name:
        parts = [self._need_part()]
        while self._take_mark(TokenType.DOT):
            parts.append(self._need_part())
        return tuple(parts)

    def _need_string(self) -> str:
        token = self._curr
        literal = self._parse_string() if token and token.token_type in self.STRING_PARSERS else None
        if not isinstance(literal, exp.Literal):
            self._fail("expected a text in single quotes")
        return str(literal.this)

    def _need_string_or_null(self) -> str | None:
        return None if self._take("NULL") else self._need_string()

    def _list(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Items with commas between them."""
        items = [item()]
        while self._take_mark(TokenType.COMMA):
            items.append(item())
        return tuple(items)

    def _wrapped_list(self, item: Callable[[], T]) -> tuple[T, ...]:
        self._need_mark(TokenType.L_PAREN, "(")
        items = self._list(item)
        self._need_mark(TokenType.R_PAREN, ")")
        return items

    def _take_if_not_exists(self) -> bool:
        return self._take("IF", "NOT", "EXISTS")

    def _take_if_exists(self) -> bool:
        return self._take("IF", "EXISTS")

    # Pieces.

    def _piece_of(self, parse: Callable[[], object], what: str) -> Piece:
        """Where that stands what `parse` reads."""
        first: Token = self._curr
        if not first:
            self._fail(f"expected {what}")
        before = self._index
        if parse() is None or self._index == before:
            self._fail(f"expected {what}")
        return Piece(first.start, self._prev.end + 1)

    def _need_expression(self, what: str = "an expression") -> Piece:
        return self._piece_of(self._parse_disjunction, what)

    def _need_query(self) -> Piece:
        if not (
            any(self._at(word) for word in QUERY_STARTS) or self._match(TokenType.L_PAREN, advance=False)
        ):
            self._fail("expected a query")
        return self._piece_of(self._parse_ddl_select, "a query")

    def _need_sort_key(self) -> SortKey:
        expression = self._need_expression("a sort key")
        order = ""
        if self._take("DESC"):
            order = " DESC"
        elif self._take("ASC"):
            order = " ASC"
        if self._take("NULLS", "FIRST"):
            order += " NULLS FIRST"
        elif self._take("NULLS", "LAST"):
            order += " NULLS LAST"
        return SortKey(expression, order)

    def _text(self, piece: Piece) -> str:
        return str(self.sql[piece.start : piece.stop])

    # Types.

    @property
    def _is_spark(self) -> bool:
        raise NotImplementedError

    def _need_type(self) -> DataType:
        """A type in the words of the dialect."""
        return parse_type(self._type_text())

    def _type_text(self) -> str:
        """The type in words that mean the same to the lake."""
        text = self._plain_type_text()
        while True:
            if self._take_mark(TokenType.L_BRACKET):
                size = self._parse_number()
                self._need_mark(TokenType.R_BRACKET, "]")
                text += f"[{size.name}]" if size is not None else "[]"
            elif not self._is_spark and self._take("ARRAY"):
                text += "[]"
            else:
                return text

    def _plain_type_text(self) -> str:
        name = self._need_part().lower().partition(" ")[0]  # some types are one token of two words
        if name in ("struct", "row"):
            return f"STRUCT({', '.join(self._inside(self._struct_field))})"
        if name in ("map", "list", "array"):
            return f"{name}({', '.join(self._inside(self._type_text))})"
        if name in ("decimal", "dec", "numeric"):
            return f"decimal{self._arguments() or ('(10, 0)' if self._is_spark else '')}"
        if name in ("timestamp", "time", "datetime"):
            return self._time_text(name)
        if name == "interval":
            while any(self._take(word) for word in _INTERVAL_WORDS):
                pass
            return name
        if name == "double":
            self._take("PRECISION")
            return name
        if name in ("character", "char", "nvarchar", "varchar", "bpchar", "string", "text"):
            self._take("VARYING")
            self._arguments()
            return "varchar"
        if name == "float":
            digits = self._arguments().strip("()")
            return "double" if digits.isdigit() and int(digits) > 24 else "float"
        if name in ("enum", "union"):
            self._arguments()
        return name if self._is_spark else _DUCKDB_TYPES.get(name, name)

    def _time_text(self, name: str) -> str:
        digits = self._arguments().strip("()")
        if self._take("WITH"):
            self._take("LOCAL")
            self._need("TIME", "ZONE")
            return name + "tz"
        if self._take("WITHOUT"):
            self._need("TIME", "ZONE")
            return name
        if self._is_spark and name == "timestamp":
            return "timestamptz"
        if not self._is_spark and digits.isdigit() and name != "time":
            found = _TIMESTAMP_DIGITS.get(int(digits))
            if found is None:
                raise InvalidInputError(
                    f"The lake has no {name}({digits}): a timestamp has 0, 3, 6 or 9 digits."
                )
            return found
        return name

    def _struct_field(self) -> str:
        name = self._need_part()
        self._take_mark(TokenType.COLON)
        text = f"{quote(name)} {self._type_text()}"
        if self._take("NOT", "NULL"):
            raise InvalidInputError(
                f'The field "{name}" of a struct cannot be NOT NULL: the lake keeps that for columns only.'
            )
        if self._take("COMMENT"):
            self._need_string()
            raise InvalidInputError(
                f'The field "{name}" of a struct cannot have a comment: the lake keeps them for tables and columns.'
            )
        return text

    def _inside(self, item: Callable[[], T]) -> tuple[T, ...]:
        """What stands in `<...>` or `(...)`."""
        if self._take_mark(TokenType.LT):
            items = self._list(item)
            self._need_mark(TokenType.GT, ">")
            return items
        return self._wrapped_list(item)

    def _to_the_end(self, what: str) -> Piece:
        first = self._curr
        if not first:
            self._fail(f"expected {what}")
        self._advance(len(self._tokens) - self._index)
        return Piece(first.start, self._prev.end + 1)

    def _arguments(self) -> str:
        """`(10, 2)` behind a type's name, or nothing."""
        if not self._match(TokenType.L_PAREN, advance=False):
            return ""
        return f"({', '.join(self._wrapped_list(self._type_argument))})"

    def _type_argument(self) -> str:
        token = self._curr
        if not token or token.token_type in (TokenType.R_PAREN, TokenType.L_PAREN):
            self._fail("expected a number")
        self._advance()
        if token.token_type == TokenType.IDENTIFIER or (self._curr and _is_word(self._curr.text)):
            self._need_type()  # a member of a UNION, which the lake refuses later
        return str(token.text)


def _is_word(text: str) -> bool:
    return bool(text) and (text[0].isalpha() or text[0] == "_" or not text[0].isascii() or text[0].isdigit())
