"""Starts trainctl and reads what it writes. The training itself happens in the program, not in this process.

    import trainctl

    result = trainctl.run("config.yaml", {"optimizer.lr": 0.01})
    print(result.val["accuracy"], result.best.checkpoint)
    epochs = trainctl.load_metrics(result.run_dir)  # a pandas.DataFrame if pandas is installed
"""

# The command `trainctl` imports this package, so the modules that only Python code needs are imported at their first use.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainctl.runs import Best, Result, RunError, load_metrics, load_result, run

    __version__: str
else:

    def __getattr__(name):
        if name == "__version__":
            import importlib.metadata

            return importlib.metadata.version("trainctl")
        if name in __all__:
            from trainctl import runs

            return getattr(runs, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Best", "Result", "RunError", "__version__", "load_metrics", "load_result", "run"]


def __dir__() -> list[str]:
    return __all__
