"""The form of all commands: options grouped by subject in the help, and one message for all missing options."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

WIDEST = 30
"""Most characters of an option and its type beside the help text. Longer ones have a line of their own."""


class GroupedCommand(TyperCommand):
    """A command whose help has a section for each subject (``rich_help_panel``)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. A usage error names all missing options and arguments."""
        given = self.make_parser(ctx).parse_args(args=list(args))[0]
        helps = self.get_help_option(ctx)
        needed = () if ctx.resilient_parsing or (helps and helps.name in given) else self.params
        missing = [
            f"{each.param_type_name} {' / '.join(map(repr, each.opts))}"
            for each in needed
            if each.required and each.value_is_missing(each.consume_value(ctx, given)[0])
        ]
        if missing:
            ctx.fail(f"Missing {', '.join(missing)}.")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections in the order of their first options, all with the same columns."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx) if self.lists(each) else None
            if record is not None:
                usual = "Arguments" if each.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(record)
        width = min(WIDEST, max(len(name) for rows in sections.values() for name, _ in rows))
        for subject, rows in sections.items():
            with formatter.section(subject):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def lists(self, parameter: Any) -> bool:
        """Return whether the help lists a parameter."""
        return True
