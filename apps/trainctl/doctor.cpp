#include "doctor.hpp"

#include "build_info.hpp"
#include "context.hpp"
#include "data/libraries.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

namespace trainctl::app {
namespace {

constexpr std::array kNames{"ok", "degraded", "broken"};
constexpr std::array kColors{"32", "33", "1;31"};

Json document(const std::vector<Finding>& findings, Health worst) {
  Json all = Json::array();
  for (const Finding& one : findings) {
    all.push_back({{"name", one.name},
                   {"health", kNames.at(static_cast<std::size_t>(one.health))},
                   {"found", one.found},
                   {"cure", one.cure}});
  }
  Json libraries = Json::object();
  for (const data::Library& one : data::linked_libraries()) libraries[one.name] = one.version;
  for (const data::Library& one : data::loaded_libraries())
    libraries[one.name] = one.version.empty() ? Json(nullptr) : Json(one.version);
  return {{"schema", "trainctl.doctor/1"},
          {"version", kBuildInfo.version},
          {"health", kNames.at(static_cast<std::size_t>(worst))},
          {"libraries", libraries},
          {"findings", all}};
}

void print_finding(const Finding& finding, config::Color color) {
  const auto rank = static_cast<std::size_t>(finding.health);
  std::string health = fmt::format("{:<9}", kNames.at(rank));
  if (color == config::Color::on)
    health = fmt::format("\x1b[{}m{}\x1b[0m", kColors.at(rank), health);
  print(fmt::format("  {} {:<9} {}", health, finding.name, finding.found));
  if (!finding.cure.empty()) print(fmt::format("  {:<19} -> {}", "", finding.cure));
}

int doctor(const Context& context) {
  const std::vector<Finding> findings = examine();
  const Health worst = std::ranges::max(findings, {}, &Finding::health).health;
  if (context.json) {
    print_json(document(findings, worst));
  } else {
    if (!context.quiet) print("trainctl " + version_text());
    for (const Finding& one : findings) {
      if (!context.quiet || one.health != Health::ok)
        print_finding(one, color_for(context, stdout));
    }
  }
  return worst == Health::broken ? static_cast<int>(ErrorKind::resource) : 0;
}

}  // namespace

void add_doctor(CLI::App& program, Context& context) {
  CLI::App& verb = add_verb(
      program, context,
      {"doctor", "what this machine has, what is degraded and how to fix it", kMachineGroup},
      [&context] { return doctor(context); });
  verb.footer("Exit codes: 0 trainctl can train here; 11 something it needs is missing.");
}

}  // namespace trainctl::app
