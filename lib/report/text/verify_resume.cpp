#include "report/text/verify_resume.hpp"

#include "base/error.hpp"
#include "report/text/table.hpp"

#include <algorithm>

namespace trainctl::report {
namespace {

constexpr std::array<std::pair<const char*, StateComparison Kill::*>, 4> kFindings{
    {{"weights", &Kill::weights},
     {"optimizer", &Kill::optimizer},
     {"losses", &Kill::losses},
     {"batches", &Kill::batches}}};

std::string origin(const Kill& kill) {
  if (!kill.ran_to_its_end && kill.resumed_from.empty()) return "-";
  return kill.resumed_from.empty() ? "the beginning" : printable(kill.resumed_from);
}

Table table_of(const ResumeCheck& check) {
  Table table({"kill", left("killed"), "step", "epoch", left("phase"), left("resumed from"),
               left("weights"), left("optimizer"), left("losses"), left("batches")});
  for (const Kill& kill : check.kills) {
    std::vector<std::string> cells{std::to_string(kill.number),  printable(kill.killed),
                                   with_thousands(kill.died_at), std::to_string(kill.epoch + 1),
                                   printable(kill.phase),        origin(kill)};
    for (const auto& [name, finding] : kFindings)
      cells.push_back(kill.ran_to_its_end ? enum_name((kill.*finding).sameness) : "-");
    table.add(std::move(cells));
  }
  return table;
}

/// Returns the details that do not fit into the table.
std::string remarks(const Kill& kill) {
  if (!kill.failure.empty())
    return fmt::format("  kill {}: {}\n", kill.number, printable(kill.failure));
  std::string text;
  for (const auto& [name, finding] : kFindings) {
    const StateComparison& found = kill.*finding;
    if (found.sameness != Sameness::identical && !found.first.empty())
      text += fmt::format("  kill {}, {}: {}\n", kill.number, name, printable(found.first));
  }
  return text;
}

Json json_of(const Kill& kill) {
  Json row = joined({{{"kill", kill.number}},
                     JSON_FIELDS(kill, killed, step, died_at),
                     {{"epoch", kill.epoch + 1},
                      {"phase", kill.phase},
                      {"resumed_from", or_null(kill.resumed_from)},
                      {"identical", is_identical(kill)},
                      {"failure", or_null(kill.failure)}}});
  for (const auto& [name, finding] : kFindings)
    row[name] = {{"verdict", enum_name((kill.*finding).sameness)},
                 {"first", (kill.*finding).first}};
  return row;
}

}  // namespace

bool is_identical(const Kill& kill) {
  const auto same = [](const StateComparison& one) { return one.sameness == Sameness::identical; };
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
  text += paint(fmt::format("{} of {} resumed runs are identical to the uninterrupted run", same,
                            check.kills.size()),
                all ? Ink::green : Ink::red, style) +
          '\n';
  if (!check.folder.empty()) text += "  all runs: " + printable(check.folder) + '\n';
  return text;
}

Json verify_resume_json(const ResumeCheck& check) {
  return {{"schema", "trainctl.verify_resume/2"},
          {"exit_code", exit_code_of(check)},
          {"seed", check.seed},
          {"kills", check.kills.size()},
          {"identical", std::ranges::count_if(check.kills, is_identical)},
          {"uninterrupted",
           JSON_FIELDS(check, steps, epochs, wall_s, world_size, parameter_digest, data_digest)},
          {"checkpoint_every_n_steps", check.every_n_steps},
          {"rows", json_list(check.kills, json_of)},
          {"folder", or_null(check.folder)}};
}

}  // namespace trainctl::report
