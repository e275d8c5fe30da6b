#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace trainctl::app {

/// The text of --help for the program or one verb: the same under every version of CLI11.
std::string help_text(const CLI::App& app);

/// A usage error in our words: an unknown verb or flag gets the nearest one.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error);

}  // namespace trainctl::app
