#include "report/search/tune.hpp"

#include "base/numbers.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {
namespace {

std::string setting_of(const TuneChange& change) { return change.key + "=" + change.value; }

std::string runs_text(const TuneReport& report) {
  const TuneBaseline& base = report.baseline;
  const std::string epochs =
      base.part < 1
          ? fmt::format("{} epochs, each with {} batches ({} % of a whole epoch),", base.epochs,
                        with_thousands(base.batches), percent_text(base.part))
          : fmt::format("{} whole epochs", base.epochs);
  return fmt::format("{} samples/s; runs of {} take about {}", rate_text(base.samples_per_s),
                     epochs, human_duration(base.run_s));
}

Table tries_table(const TuneReport& report) {
  Table table({left("tried"), left("was"), "gain [95 %]", left("losses"), left("result")});
  for (const TuneTrial& one : report.tried) {
    const bool accepted = one.ruling == TuneDecision::accepted;
    table.add({printable(setting_of(one.change)), printable(one.change.before), gain_text(one.gain),
               one.losses, printable(accepted ? "accepted" : one.why)});
  }
  return table;
}

std::string left_out_text(const TuneReport& report) {
  std::string text;
  for (const UntriedSetting& one : report.untried) {
    const std::string what = one.value.empty() ? one.key : one.key + "=" + one.value;
    text += fmt::format("Not tried: {}: {}\n", printable(what), printable(one.why));
  }
  return text;
}

std::string patch_line(const TuneReport& report) {
  if (report.patch.empty()) {
    if (report.end == TuneStopReason::machine_busy) return "inconclusive: the machine is busy";
    return report.end == TuneStopReason::nothing_to_fix ? "nothing to fix"
                                                        : "empty: no change was accepted";
  }
  std::string text;
  for (const TunePatchEntry& entry : report.patch)
    text += (text.empty() ? "" : " ") + setting_of(entry.change);
  return text;
}

Json speedup_with_pairs(const Speedup& gain) { return JSON_FIELDS(gain, value, ci95, pairs); }

Json verdict_json(const TuneVerdict& verdict) {
  return {{"verdict", verdict.name},
          {"share", json_number(verdict.share)},
          {"without_waits", json_number(verdict.headroom)},
          {"advice", verdict.advice},
          {"taken_cores", json_number(verdict.taken)},
          {"cause", or_null(verdict.cause)},
          {"setting", or_null(verdict.setting)}};
}

Json try_json(const TuneTrial& one) {
  return joined({JSON_FIELDS(one.change, key, before, value),
                 JSON_FIELDS(one, reason),
                 {{"gain", json_value(one.gain.value)}},
                 JSON_FIELDS(one.gain, ci95, pairs),
                 {{"losses", one.losses}, {"accepted", one.ruling == TuneDecision::accepted}},
                 JSON_FIELDS(one, ruling, why)});
}

Json entry_json(const TunePatchEntry& entry) {
  return joined({JSON_FIELDS(entry.change, key, before, value),
                 {{"gain", speedup_with_pairs(entry.gain)}, {"reason", entry.reason}}});
}

Json untried_json(const UntriedSetting& one) {
  return {{"key", one.key}, {"value", or_null(one.value)}, {"why", one.why}};
}

Json baseline_json(const TuneBaseline& base) {
  return joined({JSON_FIELDS(base, samples_per_s, run_s, epochs, batches),
                 {{"part_of_epoch", json_number(base.part)}},
                 JSON_FIELDS(base, num_threads, num_workers, data_digest)});
}

/// A map in the patch: the values by the last component of their keys, and the nested maps.
struct Section {
  std::map<std::string, Section> sections;
  std::vector<std::pair<std::string, const TunePatchEntry*>> values;
};

Section sections_of(const std::vector<TunePatchEntry>& patch) {
  Section root;
  for (const TunePatchEntry& entry : patch) {
    const std::vector<std::string> parts = split(entry.change.key, '.');
    Section* at = &root;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) at = &at->sections[parts[i]];
    at->values.emplace_back(parts.back(), &entry);
  }
  return root;
}

std::string comment(const std::string& text, const std::string& indent = "") {
  return indent + "# " + printable(text) + "\n";
}

std::string lines_of(const Section& section, const std::string& indent) {
  std::string text;
  for (const auto& [key, entry] : section.values) {
    text += comment(fmt::format("was {}; {} the speed before this change", entry->change.before,
                                gain_text(entry->gain)),
                    indent);
    text += comment(entry->reason, indent);
    text += fmt::format("{}{}: {}\n", indent, key, entry->change.value);
  }
  for (const auto& [key, below] : section.sections)
    text += fmt::format("{}{}:\n{}", indent, key, lines_of(below, indent + "  "));
  return text;
}

std::string whole_gain(const TuneReport& report) {
  if (!report.gain)
    return "The whole patch was not compared with the original, because tune ended before that.";
  return fmt::format("Whole patch: {} the original speed (95 % interval), from {} pairs of runs.",
                     gain_text(*report.gain), report.gain->pairs);
}

}  // namespace

std::string more_time_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  const bool in_hours = seconds >= 2 * kHour;
  const double count = std::max(std::ceil(seconds / (in_hours ? kHour : kMinute)), 1.0);
  return fmt::format("about {:.0f} more {}{}", count, in_hours ? "hour" : "minute", plural(count));
}

std::string text_of(const TuneVerdict& verdict) {
  const std::string text =
      fmt::format("{}; without waits and overhead, a run would be {:.2f}x as fast",
                  bottleneck_text(verdict.name, verdict.cause, verdict.share), verdict.headroom);
  if (!(verdict.taken > 0)) return text;
  return fmt::format("{}; other processes used {} % of the cores", text,
                     percent_text(verdict.taken));
}

std::string tune_text(const TuneReport& report, const TuneCommands& commands, const Style& style) {
  std::string text;
  if (!report.tried.empty())
    text += to_text(tries_table(report), style) +
            "Each change was compared with the settings that were accepted before it. Gain: factor "
            "of the speed, with its 95 % confidence interval.\n";
  text += left_out_text(report);
  const auto fact = [&](const char* label, const std::string& value) {
    text += fact_line(label, printable(value), style);
  };
  fact("baseline", runs_text(report));
  fact("bottleneck", text_of(report.before));
  if (!report.patch.empty()) fact("with patch", text_of(report.after));
  fact("patch", patch_line(report));
  if (!report.patch.empty())
    fact("gain", report.gain
                     ? gain_text(*report.gain) + " the original speed (95 % interval)"
                     : "the whole patch was not compared with the original, because tune ended "
                       "before that");
  for (const std::string& line : report.advice) fact("advice", line);
  fact("ended", fmt::format("{}; {} of the budget of {} used", report.ended,
                            human_duration(report.used_s), human_duration(report.budget_s)));
  if (!commands.run.empty()) fact("next", commands.run);
  if (!commands.check.empty()) fact("check", commands.check);
  return text;
}

Json tune_document(const TuneReport& report, const TuneCommands& commands) {
  Json patch = Json::object();
  for (const TunePatchEntry& entry : report.patch) patch[entry.change.key] = entry.change.value;
  return joined(
      {{{"schema", "trainctl.tune/2"}},
       JSON_FIELDS(report, config, overrides, exit_code),
       {{"baseline", baseline_json(report.baseline)},
        {"verdict", verdict_json(report.before)},
        {"verdict_after", verdict_json(report.after)}},
       JSON_FIELDS(report, repeats, tolerance),
       {{"tried", json_list(report.tried, try_json)},
        {"untried", json_list(report.untried, untried_json)},
        {"advice", report.advice},
        {"patch", patch},
        {"entries", json_list(report.patch, entry_json)},
        {"gain", or_null(report.gain, speedup_with_pairs)},
        {"undecided", or_null(report.undecided, JSON_OF(changes, untested, more_s))},
        {"ended", enum_name(report.end)},
        {"ended_why", report.ended},
        {"budget",
         {{"seconds", json_number(report.budget_s)}, {"used_s", json_number(report.used_s)}}},
        {"run_command", or_null(commands.run)},
        {"check_command", or_null(commands.check)}}});
}

std::string patch_text(const TuneReport& report, const TuneCommands& commands) {
  std::string text = comment("Changes by 'trainctl tune' to " + report.config + ".");
  if (report.patch.empty()) {
    text += comment("Nothing: " + report.ended + ".");
    return text + "{}\n";
  }
  text += comment("Bottleneck before: " + text_of(report.before) + ".");
  text += comment(whole_gain(report));
  text += comment("In your own file: extends: [" + report.config + ", this file]");
  if (!commands.run.empty()) text += comment("Or: " + commands.run);
  if (!commands.check.empty()) text += comment("Measure the gain again: " + commands.check);
  return text + lines_of(sections_of(report.patch), "");
}

}  // namespace trainctl::report
