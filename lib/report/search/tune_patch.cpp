#include "base/strings.hpp"
#include "report/search/tune.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

namespace trainctl::report {
namespace {

/// A map of the patch: the last words of the keys below it, and the maps in it.
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
    text += comment(fmt::format("was {}; {} over what was best until then", entry->change.before,
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
  if (!report.gain) return "The patch was not proved as a whole: tune was ended before.";
  return fmt::format("All of it: {} over the original, of {} pairs of interleaved runs.",
                     gain_text(*report.gain), report.gain->pairs);
}

}  // namespace

std::string patch_text(const TuneReport& report, const TuneCommands& commands) {
  std::string text = comment("What 'trainctl tune' changes of " + report.config + ".");
  if (report.patch.empty()) {
    text += comment("Nothing: " + report.ended + ".");
    return text + "{}\n";
  }
  text += comment(fmt::format("It was {}: {} % of the time, {:.2f}x without all waits.",
                              report.before.name, percent_text(report.before.share),
                              report.before.headroom));
  text += comment(whole_gain(report));
  text += comment("In a file of your own: extends: [" + report.config + ", this file]");
  if (!commands.run.empty()) text += comment("Or: " + commands.run);
  if (!commands.check.empty()) text += comment("Measure it again: " + commands.check);
  return text + lines_of(sections_of(report.patch), "");
}

}  // namespace trainctl::report
