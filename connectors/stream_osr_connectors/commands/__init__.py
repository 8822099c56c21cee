"""Commands to a stream, sent by a file beside the checkpoint of a run or by a topic of a service."""

from .command import Action, Command, CommandReceipt, CommandResult
from .command_entry import CommandEntry
from .file_log import history

__all__ = ["Action", "Command", "CommandEntry", "CommandReceipt", "CommandResult", "history"]
