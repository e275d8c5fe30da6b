#pragma once

#include <string>
#include <string_view>

namespace trainctl {

/// Returns a message that no value can make endless. Of each line with more than 2,000 characters
/// the first 1,000 and the last 500 stay: "START... (1,048,576 characters) ...END".
std::string bounded(std::string_view message);

/// Returns the text as printable() does, with its line breaks; `indent` goes before each line but
/// the first.
std::string printable_lines(std::string_view text, std::string_view indent = "");

/// Returns "optimizer: MESSAGE"; the message alone where it already begins with that prefix, as in
/// "optimizer: ..." and "optimizer 'adam': ...".
std::string with_prefix(std::string_view prefix, std::string_view message);

/// Returns "CAUSE; see FOLDER", where a hint follows with the hint after it: "CAUSE; see FOLDER"
/// and "hint: ..." on the next line.
std::string with_reference(std::string_view message, std::string_view place);

/// Returns the lines of a message as one printable line: "these changed: a: 1 -> 2; b: 3 -> 4".
std::string one_line(std::string_view message);

}  // namespace trainctl
