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

/// The state that all commands share: the global flags, and the problems found in a config. One per
/// process, owned by main().
struct Context {
  bool json = false;   // print one JSON document on stdout
  bool quiet = false;  // no progress and notes; errors are still printed
  int verbosity = 0;   // number of -v
  ColorMode color = ColorMode::automatic;
  ProgressMode progress = ProgressMode::automatic;
  std::vector<std::string> argv;
  const CLI::App* program = nullptr;
  std::string token_digits;  // from TRAINCTL_RDZV_TOKEN, which is removed from the environment
  config::Diagnostics
      diagnostics;  // problems of the config a command reads; listed in the JSON of an error
  std::function<int()> action;  // action of the chosen command; returns the exit code
  /// Callbacks that complete the parsed arguments of a command before its action.
  std::map<const CLI::App*, std::function<void()>> complete_arguments;
};

/// Throws Error(resource) if the working directory was deleted, since libraries that a child
/// process loads would end it without an error message.
void check_working_directory();

/// Returns whether to color output to `stream`: --color, or else NO_COLOR and whether it is a tty.
config::Color color_for(const Context& context, std::FILE* stream);

/// Writes text unchanged. main() reports a stdout that could not be written.
void put(std::FILE* stream, const std::string& text);
/// Writes text and a newline to stdout.
void print(const std::string& text);
/// Prints the document of a command with --json. Returns the exit code 0.
int print_json(const Json& document);
/// Prints the warnings of a valid config to stderr; nothing with --quiet or --json.
void print_warnings(const Context& context);
/// Returns an error without a position as an element of problems_json().
Json problem_json(const std::optional<std::string>& file, const std::string& message);
/// Returns the config problems as a JSON list: file, line, column, severity, message, hint.
Json problems_json(const config::Diagnostics& diagnostics);
/// Prints "error: MESSAGE" to stderr.
void print_error(const Context& context, const std::string& message);
/// Prints the error (to stderr, or the JSON document trainctl.error/2 to stdout; errors with exit
/// code 11 always go to stderr too) and returns its exit code.
int report_error(const Context& context, const Error& error);

}  // namespace trainctl::app
