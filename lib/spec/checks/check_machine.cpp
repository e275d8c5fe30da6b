#include "base/strings.hpp"
#include "spec/checks/check_loggers_decl.hpp"
#include "spec/checks/checker.hpp"
#include "spec/logger/exec.hpp"
#include "spec/logger/prometheus.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

namespace trainctl::spec {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

/// As execvp finds it.
bool is_found(const std::string& program) {
  if (program.find('/') != std::string::npos) return is_program(program);
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    if (is_program(fs::path(folder.empty() ? "." : folder) / program)) return true;
  }
  return false;
}

void check_exec(Checker& checker, const config::Stage& stage, const std::string& path) {
  const auto& command = stage.as<logger::Exec>().command;
  if (command.empty() || is_found(command.front())) return;
  const bool is_path = command.front().find('/') != std::string::npos;
  checker.error(path + ".command",
                fmt::format("there is no program '{}'{}", printable(command.front()),
                            is_path ? "" : " in the folders of PATH"),
                is_path ? "correct the path (a relative one starts in the current folder) and make "
                          "the file executable"
                        : "install it, or write its path");
}

void check_prometheus(Checker& checker, const config::Stage& stage, const std::string& path) {
  const auto& file = stage.as<logger::Prometheus>().file;
  if (!file) return;
  std::error_code ignored;
  if (file->extension() != ".prom") {
    checker.error(path + ".file",
                  fmt::format("'{}' does not end in .prom: the collector reads no other files",
                              printable(file->string())),
                  "write 'file: .../trainctl.prom'");
  } else if (file->has_parent_path() && !fs::is_directory(file->parent_path(), ignored)) {
    checker.error(path + ".file",
                  fmt::format("there is no folder '{}'", printable(file->parent_path().string())),
                  "make it, or name the one of node_exporter's --collector.textfile.directory");
  }
}

}  // namespace

void check_loggers(const Loaded& loaded, config::Diagnostics& diagnostics) {
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  std::set<std::string> seen;
  const auto& loggers = loaded.experiment.loggers;
  for (std::size_t i = 0; i < loggers.size(); ++i) {
    const config::Stage& stage = loggers[i];
    const std::string path = fmt::format("loggers.{}", i);
    if (!stage || !checker.sound(path)) continue;
    if (stage.type == "exec") {
      check_exec(checker, stage, path);
      continue;  // several commands may listen
    }
    if (!seen.insert(stage.type).second)
      checker.error(path, fmt::format("the logger '{}' is listed twice", stage.type),
                    "remove one of them");
    if (stage.type == "prometheus") check_prometheus(checker, stage, path);
  }
}

}  // namespace trainctl::spec
