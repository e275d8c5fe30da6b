#pragma once

#include "support/catch.hpp"
#include "support/golden_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

// Golden texts: tests/golden/NAME. With TRAINCTL_APPROVE=1 the test writes its output there instead
// of comparing, for review as a diff. In a golden file %float matches any number and %path any text
// without spaces; approving keeps lines whose placeholders still match.

namespace golden {

inline std::size_t number_length(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() &&
         std::string_view("0123456789+-.,einfa").find(text[end]) != std::string_view::npos)
    ++end;
  return end;
}

inline bool line_fits(std::string_view expected, std::string_view line) {
  constexpr std::string_view kFloat = "%float";
  constexpr std::string_view kPath = "%path";
  while (!expected.empty()) {
    std::size_t length = 0;
    if (expected.starts_with(kFloat)) {
      length = number_length(line);
      expected.remove_prefix(kFloat.size());
    } else if (expected.starts_with(kPath)) {
      length = std::min(line.find(' '), line.size());
      expected.remove_prefix(kPath.size());
    } else {
      length = !line.empty() && line[0] == expected[0] ? 1 : 0;
      expected.remove_prefix(1);
    }
    if (length == 0) return false;
    line.remove_prefix(length);
  }
  return line.empty();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns `text` with every line that matches its golden line replaced by that line, so the result
/// equals the golden text if all lines match.
inline std::string normalized(const std::string& text, const std::string& expected) {
  std::vector<std::string> lines = lines_of(text);
  const std::vector<std::string> wanted = lines_of(expected);
  std::string result;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    result += (i < wanted.size() && line_fits(wanted[i], lines[i]) ? wanted[i] : lines[i]) + '\n';
  }
  return result;
}

}  // namespace golden

/// Compares `text` with tests/golden/`name` ("report/epoch_table.txt"). A missing golden file fails
/// the test.
inline void check_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = golden_folder() / name;
  const std::string expected = golden::read(path);
  const std::string actual = golden::normalized(text, expected);
  const char* approve = std::getenv("TRAINCTL_APPROVE");
  if (approve != nullptr && std::string_view(approve) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  INFO("golden file " << path.string() << "; TRAINCTL_APPROVE=1 accepts the new text");
  REQUIRE(std::filesystem::exists(path));
  CHECK(actual == expected);
}
