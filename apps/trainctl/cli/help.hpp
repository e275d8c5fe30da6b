#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace trainctl::app {

/// The text of --help for the program or one verb: the same under every version of CLI11.
std::string help_text(const CLI::App& app);

/// "trainctl run [CONFIG] [key=value ...] [flags]".
std::string usage_line(const CLI::App& app);

/// A usage error in our words: an unknown verb or flag gets the nearest one, and a flag that is a
/// key of the experiment (`--lr 0.1`) the override to write. `argv` is the whole command line.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error,
                        const std::vector<std::string>& argv);

}  // namespace trainctl::app
