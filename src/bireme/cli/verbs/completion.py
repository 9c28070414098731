"""`bireme completion`: prints what teaches a shell our words."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command("completion", short_help="Print the shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Prints the script that completes verbs, options and names of jobs.

    \b
    bash: add to ~/.bashrc:  eval "$(bireme completion bash)"
    zsh:  add to ~/.zshrc:   eval "$(bireme completion zsh)"
    fish: bireme completion fish > ~/.config/fish/completions/bireme.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these three shells"
    # Not the class's own `source`: for bash that starts bash, only to look at its version.
    click.echo(ShellComplete.source(found(ctx.find_root().command, {}, "bireme", "_BIREME_COMPLETE")))
