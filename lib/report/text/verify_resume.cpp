#include "report/text/verify_resume.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/text/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainctl::report {
namespace {

constexpr std::array<std::pair<const char*, Agreement Kill::*>, 4> kFindings{
    {{"weights", &Kill::weights},
     {"optimizer", &Kill::optimizer},
     {"losses", &Kill::losses},
     {"batches", &Kill::batches}}};

std::string word_of(Sameness sameness) {
  return enum_names(sameness).at(static_cast<std::size_t>(sameness));
}

std::string cell(const Kill& kill, const Agreement& finding) {
  return kill.ran_to_its_end ? word_of(finding.sameness) : "-";
}

std::string origin(const Kill& kill) {
  if (!kill.ran_to_its_end && kill.resumed_from.empty()) return "-";
  return kill.resumed_from.empty() ? "the beginning" : printable(kill.resumed_from);
}

Table table_of(const ResumeCheck& check) {
  Table table({{"kill"},
               {"killed", Align::left},
               {"step"},
               {"epoch"},
               {"phase", Align::left},
               {"resumed from", Align::left},
               {"weights", Align::left},
               {"optimizer", Align::left},
               {"losses", Align::left},
               {"batches", Align::left}});
  for (const Kill& kill : check.kills) {
    std::vector<std::string> cells{std::to_string(kill.number),  printable(kill.killed),
                                   with_thousands(kill.died_at), std::to_string(kill.epoch + 1),
                                   printable(kill.phase),        origin(kill)};
    for (const auto& [name, finding] : kFindings) cells.push_back(cell(kill, kill.*finding));
    table.add(std::move(cells));
  }
  return table;
}

/// What the table has no room for.
std::string remarks(const Kill& kill) {
  if (!kill.failure.empty())
    return fmt::format("  kill {}: {}\n", kill.number, printable(kill.failure));
  std::string text;
  for (const auto& [name, finding] : kFindings) {
    const Agreement& found = kill.*finding;
    if (found.sameness != Sameness::identical && !found.first.empty())
      text += fmt::format("  kill {}, {}: {}\n", kill.number, name, printable(found.first));
  }
  return text;
}

Json json_of(const Agreement& finding) {
  return {{"verdict", word_of(finding.sameness)}, {"first", finding.first}};
}

Json json_of(const Kill& kill) {
  Json row{{"kill", kill.number},
           {"killed", kill.killed},
           {"step", kill.step},
           {"died_at", kill.died_at},
           {"epoch", kill.epoch + 1},
           {"phase", kill.phase},
           {"resumed_from", kill.resumed_from.empty() ? Json(nullptr) : Json(kill.resumed_from)},
           {"identical", is_identical(kill)},
           {"failure", kill.failure.empty() ? Json(nullptr) : Json(kill.failure)}};
  for (const auto& [name, finding] : kFindings) row[name] = json_of(kill.*finding);
  return row;
}

}  // namespace

bool is_identical(const Kill& kill) {
  const auto same = [](const Agreement& one) { return one.sameness == Sameness::identical; };
  return kill.ran_to_its_end && kill.failure.empty() && same(kill.weights) &&
         same(kill.optimizer) && same(kill.losses) && kill.batches.sameness != Sameness::different;
}

int exit_code_of(const ResumeCheck& check) {
  const bool resumed = std::ranges::any_of(check.kills, [](const Kill& kill) {
    return kill.ran_to_its_end && !kill.resumed_from.empty();
  });
  if (!resumed) return static_cast<int>(ErrorKind::checkpoint);
  const bool identical = std::ranges::all_of(check.kills, is_identical);
  return identical ? 0 : static_cast<int>(ErrorKind::regression);
}

std::string verify_resume_text(const ResumeCheck& check, const Style& style) {
  std::string text = to_text(table_of(check), style);
  for (const Kill& kill : check.kills) text += remarks(kill);
  const auto same = std::ranges::count_if(check.kills, is_identical);
  const bool all = std::cmp_equal(same, check.kills.size());
  text += paint(fmt::format("{} of {} identical", same, check.kills.size()),
                all ? Ink::green : Ink::red, style) +
          '\n';
  if (!check.folder.empty()) text += "  see " + printable(check.folder) + '\n';
  return text;
}

Json verify_resume_json(const ResumeCheck& check) {
  Json rows = Json::array();
  for (const Kill& kill : check.kills) rows.push_back(json_of(kill));
  return {{"schema", "trainctl.verify_resume/1"},
          {"exit_code", exit_code_of(check)},
          {"seed", check.seed},
          {"kills", check.kills.size()},
          {"identical", std::ranges::count_if(check.kills, is_identical)},
          {"uninterrupted",
           {{"steps", check.steps},
            {"epochs", check.epochs},
            {"wall_s", json_number(check.wall_s)},
            {"world_size", check.world_size},
            {"parameter_digest", check.parameter_digest},
            {"data_digest", check.data_digest}}},
          {"checkpoint_every_n_steps", check.every_n_steps},
          {"rows", rows},
          {"folder", check.folder.empty() ? Json(nullptr) : Json(check.folder)}};
}

}  // namespace trainctl::report
