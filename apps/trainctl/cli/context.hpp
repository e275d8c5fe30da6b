#pragma once

#include "base/error.hpp"
#include "base/json.hpp"
#include "config/diagnostics.hpp"

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

enum class ColorMode { automatic, always, never };
enum class ProgressMode { automatic, tty, plain, none };

/// What every verb shares: the global flags, and the problems found in a config. One per process,
/// owned by main.
struct Context {
  bool json = false;   // one JSON document on stdout
  bool quiet = false;  // no progress, no remarks; errors still print
  int verbosity = 0;   // number of -v
  ColorMode color = ColorMode::automatic;
  ProgressMode progress = ProgressMode::automatic;
  std::vector<std::string> argv;
  const CLI::App* program = nullptr;
  std::string token_digits;  // that TRAINCTL_RDZV_TOKEN had: no child process inherits it
  config::Diagnostics
      diagnostics;  // a verb that reads a config collects here; the JSON of an error lists them
  std::function<int()> action;  // of the chosen verb; returns the exit code
  /// Completes the parsed arguments of a verb, before its action.
  std::map<const CLI::App*, std::function<void()>> complete_arguments;
};

/// Throws Error(resource) where the working directory has been deleted: libraries that a child
/// process loads end it without a reason then.
void check_working_directory();

/// Whether to color what goes to `stream`: --color, else NO_COLOR and whether it is a terminal.
config::Color color_for(const Context& context, std::FILE* stream);

/// Writes text as it is. main reports a stdout that could not be written.
void put(std::FILE* stream, const std::string& text);
/// Text and newline to stdout.
void print(const std::string& text);
/// The document of a --json verb.
void print_json(const Json& document);
/// Warnings that came with a config that is otherwise fine, to stderr; nothing under --quiet or
/// --json.
void print_warnings(const Context& context);
/// The config problems as a JSON list: file, line, column, severity, message, hint.
Json problems_json(const config::Diagnostics& diagnostics);
/// Prints "error: MESSAGE" on stderr.
void print_error(const Context& context, const std::string& message);
/// Prints the error (stderr, or the JSON document trainctl.error/1 on stdout; one of exit code 11
/// always on stderr) and returns its exit code.
int report_error(const Context& context, const Error& error);

}  // namespace trainctl::app
