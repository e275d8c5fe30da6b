#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace trainctl::app {

/// Returns the --help text of the program or one command. It does not depend on the CLI11 version.
std::string help_text(const CLI::App& app);

/// Returns "trainctl run [CONFIG] [key=value ...] [options]".
std::string usage_line(const CLI::App& app);

/// Returns the message for a usage error: with the nearest command or flag for an unknown one, and
/// with the override to write for a flag that is an experiment key (`--lr 0.1`). `argv` is the
/// whole command line.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error,
                        const std::vector<std::string>& argv);

}  // namespace trainctl::app
