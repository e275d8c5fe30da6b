#pragma once

#include <string>
#include <vector>

#include "config/position.hpp"

namespace trainctl::config {

enum class Severity { error, warning };

struct Diagnostic {
  Severity severity = Severity::error;
  Position position;
  std::string message;  // "unknown key 'learning_rte' in optimizer 'adam'"
  std::string hint;     // beside the caret: "did you mean 'lr'?"; may be empty
};

enum class Color { off, on };

/// Collects every problem of a config before anything starts. Order of report: source, line, column.
class Diagnostics {
 public:
  void error(const Position& position, std::string message, std::string hint = {});
  void warning(const Position& position, std::string message, std::string hint = {});

  [[nodiscard]] int error_count() const;
  [[nodiscard]] std::vector<Diagnostic> sorted() const;
  /// Like a compiler's: "file:line:col: error: ...", the source line, the caret.
  [[nodiscard]] std::string render(Color color = Color::off) const;
  /// Throws one Error(config) that prints them all, if there is any error.
  void throw_if_errors() const;

 private:
  std::vector<Diagnostic> all_;
};

}  // namespace trainctl::config
