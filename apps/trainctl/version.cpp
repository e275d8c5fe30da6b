#include "cli/verb.hpp"
#include "data/inspect/libraries.hpp"
#include "program.hpp"
#include "study/sweep/ledger.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

/// Returns the libraries of the build, SQLite, and the libraries that decode images.
std::vector<std::pair<std::string, std::string>> libraries_here() {
  std::vector<std::pair<std::string, std::string>> all(kBuildInfo.libraries.begin(),
                                                       kBuildInfo.libraries.end());
  all.emplace_back("SQLite", study::sqlite_version());
  for (const data::Library& one : data::linked_libraries()) {
    if (one.name != "zlib") all.emplace_back(one.name, one.version);
  }
  return all;
}

Json document() {
  Json libraries = Json::object();
  for (const auto& [name, version] : libraries_here()) libraries[name] = version;
  return {{"schema", "trainctl.version/2"},
          {"version", kBuildInfo.version},
          {"git", kBuildInfo.git},
          {"build",
           {{"type", kBuildInfo.build_type},
            {"compiler", kBuildInfo.compiler},
            {"engine", kBuildInfo.has_engine},
            {"cuda", kBuildInfo.cuda},
            {"kernels", kBuildInfo.has_kernels},
            {"torch_lib", kBuildInfo.torch_lib}}},
          {"libraries", libraries}};
}

int show_version(const Context& context) {
  if (context.json) return print_json(document());
  print("trainctl " + version_text());
  if (context.quiet) return 0;
  print(fmt::format("build      {}, {}, engine {}, cuda {}", kBuildInfo.build_type,
                    kBuildInfo.compiler, kBuildInfo.has_engine ? "on" : "off", kBuildInfo.cuda));
  std::string libraries;
  for (const auto& [name, version] : libraries_here()) {
    libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", name, version);
  }
  print("libraries  " + libraries);
  return 0;
}

}  // namespace

void add_version(CLI::App& program, Context& context) {
  add_verb(program, context,
           {"version", "print version, commit, build options and libraries", kMachineGroup},
           [&context] { return show_version(context); });
}

}  // namespace trainctl::app
