#include "cli/context.hpp"

#include "base/strings.hpp"
#include "cli/output.hpp"
#include "config/secret.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace trainctl::app {
namespace {

constexpr const char* kDeletedDirectory = "the working directory has been deleted";

std::string source_location_text(const std::source_location& where) {
  return fmt::format("{}:{}", std::filesystem::path(where.file_name()).filename().string(),
                     where.line());
}

/// Adds that the working directory was deleted, the cause of most failures there. Its hint replaces
/// the hint of the message.
std::string with_folder_hint(const std::string& message) {
  if (!working_directory_is_deleted()) return message;
  std::string text(without_hint(message));
  if (text.find(kDeletedDirectory) == std::string::npos)
    text += fmt::format("; {}", kDeletedDirectory);
  return text + "\nhint: change to a folder that exists, as in: cd ~";
}

}  // namespace

void check_working_directory() {
  ENSURE(resource, !working_directory_is_deleted(), "cannot start: {}", kDeletedDirectory);
}

config::Color color_for(const Context& context, std::FILE* stream) {
  if (context.color == ColorMode::always) return config::Color::on;
  if (context.color == ColorMode::never) return config::Color::off;
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return config::Color::off;
  if (terminal != nullptr && std::string_view(terminal) == "dumb") return config::Color::off;
  return ::isatty(::fileno(stream)) != 0 ? config::Color::on : config::Color::off;
}

void put(std::FILE* stream, const std::string& text) { write_text(stream, text, Flush::later); }

void print(const std::string& text) { put(stdout, text + "\n"); }

int print_json(const Json& document) {
  print(to_pretty(document));
  return 0;
}

void print_warnings(const Context& context) {
  if (context.quiet || context.json) return;
  put(stderr, context.diagnostics.render(color_for(context, stderr)));
}

Json problem_json(const std::optional<std::string>& file, const std::string& message) {
  return {{"file", file ? Json(bounded(*file)) : Json(nullptr)},
          {"line", 0},
          {"column", 0},
          {"severity", "error"},
          {"message", message},
          {"hint", ""}};
}

Json problems_json(const config::Diagnostics& diagnostics) {
  Json problems = Json::array();
  for (const config::Diagnostic& one : diagnostics.sorted()) {
    const config::Position& at = one.position;
    const auto file = at.source ? std::optional(config::without_secrets(at.source->name)) : std::nullopt;
    problems.push_back(problem_json(file, one.message));
    problems.back()["line"] = at.line;
    problems.back()["column"] = at.column;
    problems.back()["hint"] = one.hint;
    if (one.severity == config::Severity::warning) problems.back()["severity"] = "warning";
  }
  if (diagnostics.truncated())
    problems.push_back(
        problem_json({}, "the check stopped after these problems: fix these first"));
  return problems;
}

void print_error(const Context& context, const std::string& message) {
  const bool colored = color_for(context, stderr) == config::Color::on;
  put(stderr, fmt::format("{}error:{} {}\n", colored ? "\x1b[1;31m" : "", colored ? "\x1b[0m" : "",
                          with_folder_hint(bounded(message))));
}

int report_error(const Context& context, const Error& error) {
  std::string message = error.what();
  if (error.kind() == ErrorKind::unexpected) {
    message += fmt::format(" ({}; this is a bug in trainctl: please report it)",
                           source_location_text(error.where()));
  }
  const bool is_config = !context.json && context.diagnostics.error_count() > 0;
  if (context.json) {
    const std::string full = with_folder_hint(message);
    print_json({{"schema", "trainctl.error/2"},
                {"exit_code", error.exit_code()},
                {"message", without_hint(full)},
                {"hint", hint_of(full)},
                {"errors", problems_json(context.diagnostics)}});
  } else if (is_config) {
    put(stderr, context.diagnostics.render(color_for(context, stderr)));
  }
  write_text(stdout, "", Flush::now);
  const bool is_printed =
      (context.json && !is_lost(stdout)) || (is_config && !working_directory_is_deleted());
  // For exit code 11 the cause is always on stderr, since stdout may be what failed.
  if (!is_printed || error.kind() == ErrorKind::resource) print_error(context, message);
  return error.exit_code();
}

}  // namespace trainctl::app
