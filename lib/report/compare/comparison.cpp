#include "report/compare/comparison.hpp"

#include <bit>
#include <ranges>

namespace trainctl::report {
namespace {

using Values = std::vector<std::pair<std::string, double>>;

void add(Values& values, const std::string& name, double value) {
  if (!std::isnan(value)) values.emplace_back(name, value);
}

std::string best_metric(const RunFiles& run) {
  return text_at(member(run.result, "best"), "metric");
}

double value_in(const Measures& measures, std::string_view name) {
  const auto found = std::ranges::find(measures.values, name, &Values::value_type::first);
  return found == measures.values.end() ? std::nan("") : found->second;
}

/// Returns the values by seed; empty if a seed is unknown or occurs twice.
std::map<std::string, double> by_seed(const Group& group, const std::string& name) {
  std::map<std::string, double> values;
  for (const Measures& member : group.members) {
    const double value = value_in(member, name);
    if (std::isnan(value)) continue;
    if (member.seed.empty() || !values.emplace(member.seed, value).second) return {};
  }
  return values;
}

/// Replaces the run's own folder in a path, because it is not a setting.
std::string without_folder(const std::string& value, const RunFiles& run) {
  const std::string folder = run.folder.string();
  return !folder.empty() && value.starts_with(folder) ? "RUN" + value.substr(folder.size()) : value;
}

std::string setting_of(const RunFiles& run, const std::string& key) {
  const auto value = run.value(key);
  return value ? without_folder(*value, run) : "-";
}

/// Returns the keys of all runs in order, except the seed.
std::vector<std::string> keys_of(const RunComparison& compared) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const RunFiles* run : runs_of(compared)) {
    for (const auto& [key, value] : run->values) {
      if (seen.insert(key).second) keys.push_back(key);
    }
  }
  return keys;
}

std::string setting_of(const Group& group, const std::string& key) {
  std::vector<std::string> values;
  for (const RunFiles& run : group.runs) add_new(values, setting_of(run, key));
  std::ranges::sort(values);
  return join(values, " | ");
}

std::string settings_of(const RunFiles& run) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : run.values) {
    if (key != "seed") lines.push_back(key + "=" + without_folder(value, run));
  }
  std::ranges::sort(lines);
  return join(lines, "\n");
}

std::string label_of(const RunFiles& run, const RunFiles& first) {
  std::string label;
  for (const auto& [key, value] : run.values) {
    if (key == "seed" || setting_of(run, key) == setting_of(first, key)) continue;
    label += (label.empty() ? "" : ", ") + key + "=" + value;
  }
  return label.empty() ? run.name : clip(label, 60);
}

void add_repeats(Group& group, const std::string& technique, const Json& row) {
  const Json& repeats = member(row, "repeats_s");
  if (!repeats.is_array()) return;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (group.members.size() <= i) group.members.emplace_back();
    if (repeats[i].is_number())
      add(group.members[i].values, technique + ": total_s", repeats[i].get<double>());
  }
}

struct LossPoint : LossPlace {
  double value = 0;
};

bool is_loss(std::string_view name) { return name.find("loss") != std::string_view::npos; }

std::int64_t whole_at(const Json& line, std::string_view key) {
  const Json& value = member(line, key);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

void add_line(std::vector<LossPoint>& points, const Json& line) {
  const bool of_epoch = text_at(line, "type") == "epoch";
  for (const auto& [name, value] : line.items()) {
    if (is_loss(name))
      points.push_back({{name, of_epoch, whole_at(line, "epoch"), whole_at(line, "step")},
                        number_at(line, name)});
  }
}

/// Reads metrics.jsonl again, because the lines of RunFiles may be thinned out.
std::vector<LossPoint> losses_of(const RunFiles& run) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
  std::vector<LossPoint> points;
  const fs::path file = run.folder / "metrics.jsonl";
  if (is_file(file)) {
    const std::string text = read_file(file, kMostBytes, ReadFailure::resource);
    std::string_view rest = text;
    for (int number = 1; !rest.empty(); ++number) {
      // A running run may be writing the last line.
      const bool is_cut_off = rest.find('\n') == std::string_view::npos;
      const std::string_view found = next_line(rest);
      const Json line = parse_json(found);
      ENSURE(data, line.is_object() || is_cut_off || found.empty(),
             "cannot compare the losses of {}: line {} of metrics.jsonl is damaged",
             printable(run.folder.string()), number);
      if (line.is_object()) add_line(points, line);
    }
  } else {
    for (const events::EpochEnded& epoch : run.epochs) {
      for (const auto& [name, value] : epoch.metrics) {
        if (is_loss(name))
          points.push_back({{name, true, epoch.epoch + 1, epoch.global_step}, value});
      }
    }
  }
  ENSURE(config, !points.empty(),
         "{} has no loss in metrics.jsonl or epochs.csv\nhint: train with the logger csv or jsonl",
         printable(run.folder.string()));
  return points;
}

std::optional<LossDifference> first_difference(const std::vector<LossPoint>& wanted,
                                               const std::vector<LossPoint>& found,
                                               const std::string& run) {
  for (std::size_t i = 0; i < std::max(wanted.size(), found.size()); ++i) {
    const LossPoint* a = i < wanted.size() ? &wanted[i] : nullptr;
    const LossPoint* b = i < found.size() ? &found[i] : nullptr;
    if (a != nullptr && b != nullptr && static_cast<const LossPlace&>(*a) == *b) {
      const bool same =
          std::bit_cast<std::uint64_t>(a->value) == std::bit_cast<std::uint64_t>(b->value) ||
          (std::isnan(a->value) && std::isnan(b->value));
      if (same) continue;
      return LossDifference{*a, run, a->value, b->value};
    }
    if (b == nullptr ||
        (a != nullptr && std::tie(a->step, a->of_epoch) < std::tie(b->step, b->of_epoch)))
      return LossDifference{*a, run, a->value, std::nullopt};
    return LossDifference{*b, run, std::nullopt, b->value};
  }
  return std::nullopt;
}

/// Returns what to do if the runs used settings that change the order of sums. May be empty.
std::string hint_of_settings(const RunFiles& first, const RunFiles& other) {
  std::vector<std::string> differing;
  const auto add = [&](const char* key, const std::string& a, const std::string& b) {
    if (!a.empty() && !b.empty() && a != b)
      differing.push_back(fmt::format("trainer.{} ({} used {}, {} used {})", key,
                                      printable(first.folder.string()), printable(a),
                                      printable(other.folder.string()), printable(b)));
  };
  const auto used = [](const RunFiles& run, const char* key) {
    const Json& value = member(member(run.manifest, key), "value");
    return value.is_number_integer() || value.is_boolean() ? value.dump() : std::string();
  };
  for (const char* key : {"num_threads", "channels_last"})
    add(key, used(first, key), used(other, key));
  for (const char* key : {"devices", "precision"}) {
    const std::string name = fmt::format("trainer.{}", key);
    add(key, first.value(name).value_or(""), other.value(name).value_or(""));
  }
  return differing.empty() ? "" : "set equal values of " + join(differing, " and of ");
}

std::string value_text(const std::optional<double>& value) {
  return value ? fmt::format("{:a} ({})", *value, exact_text(*value)) : "missing";
}

using Parts = std::vector<std::string>;

/// Splits the path of each run into its parts, without a trailing '/'.
std::vector<Parts> paths_of(const std::string& word) {
  std::vector<Parts> runs;
  for (const std::string& run : split(word, ',')) {
    Parts parts;
    for (const fs::path& part : fs::path(run)) {
      if (!part.empty()) parts.push_back(part.string());
    }
    if (!parts.empty()) runs.push_back(std::move(parts));
  }
  return runs;
}

/// Returns the number of leading folders that all runs share; the last part of each path is kept.
std::size_t common_parts(const std::vector<Parts>& runs) {
  std::size_t common = 0;
  for (bool same = !runs.empty(); same; common += same ? 1 : 0) {
    same = std::ranges::all_of(runs, [&](const Parts& one) {
      return one.size() > common + 1 && one[common] == runs.front()[common];
    });
  }
  return common;
}

bool is_own_name(const std::string& name) {
  return std::ranges::find(kMeasures, name) != kMeasures.end();
}

std::vector<Measures> sorted_by_seed(std::vector<Measures> members) {
  std::ranges::sort(members, {}, &Measures::seed);
  return members;
}

/// Returns whether both have the same seeds, each once. The members must be sorted.
bool are_pairs(const std::vector<Measures>& base, const std::vector<Measures>& now) {
  const auto is_twice = [](const std::vector<Measures>& members) {
    return std::ranges::adjacent_find(members, {}, &Measures::seed) != members.end();
  };
  const bool known = !base.empty() && !base.front().seed.empty();
  return known && !is_twice(base) &&
         std::ranges::equal(base, now, {}, &Measures::seed, &Measures::seed);
}

Samples samples_of(const std::vector<Measures>& members) {
  Samples samples;
  for (const Measures& member : members) {
    for (const auto& [name, value] : member.values) samples[name].push_back(value);
  }
  std::erase_if(samples, [&](const auto& each) { return each.second.size() != members.size(); });
  if (const auto wall = samples.find("wall_s"); wall != samples.end())
    samples.emplace("total_s", wall->second);
  return samples;
}

/// Returns the machine of each run, or the machine of the bench.
std::vector<Json> machines_of(const Group& group) {
  std::vector<Json> machines;
  for (const RunFiles& run : group.runs) machines.push_back(machine_of_manifest(run.manifest));
  if (machines.empty()) machines.push_back(group.machine);
  return machines;
}

}  // namespace

std::vector<const RunFiles*> runs_of(const RunComparison& compared) {
  std::vector<const RunFiles*> runs;
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs) runs.push_back(&run);
  }
  return runs;
}

Measures measures_of(const RunFiles& run) {
  Measures measures{.seed = run.value("seed").value_or("")};
  Values& values = measures.values;
  if (!run.epochs.empty()) {
    for (const auto& [name, value] : run.epochs.back().metrics) add(values, name, value);
  }
  if (!best_metric(run).empty())
    add(values, "best/" + best_metric(run), number_at(member(run.result, "best"), "value"));
  if (!run.epochs.empty()) {
    const std::span<const events::EpochEnded> all = run.epochs;
    const events::Timing steady = sum_timing(without_first(all));
    const auto epochs = static_cast<double>(std::max<std::size_t>(all.size() - 1, 1));
    add(values, "samples_per_s", steady.samples_per_s);
    add(values, "epoch_s", steady.wall_s / epochs);
    add(values, "first_batch_s", all.front().timing.first_batch_s);
    add(values, "rss_mb", steady.rss_mb);
    if (steady.gpu_mem_mb) add(values, "gpu_mem_mb", *steady.gpu_mem_mb);
    if (steady.gpu_util) add(values, "gpu_util", *steady.gpu_util);
    add(values, "epochs", static_cast<double>(all.back().epoch + 1));
  }
  if (text_at(run.result, "verdict") != "unfinished")
    add(values, "wall_s", number_at(run.result, "wall_s"));
  return measures;
}

Group group_of(std::string label, std::vector<RunFiles> runs) {
  Group group{.label = std::move(label), .runs = std::move(runs)};
  for (const RunFiles& run : group.runs) group.members.push_back(measures_of(run));
  return group;
}

Group group_of_bench(std::string label, const Json& bench) {
  Group group{
      .label = std::move(label), .members = {Measures{}}, .machine = member(bench, "machine")};
  const Json& rows = member(bench, "rows");
  if (!rows.is_array()) return group;
  for (const Json& row : rows) {
    const std::string technique = text_at(row, "technique");
    add_repeats(group, technique, row);
    Values& values = group.members.front().values;
    add(values, technique + ": epoch_s", number_at(row, "steady_epoch_s"));
    add(values, technique + ": samples_per_s", number_at(row, "samples_per_s"));
    const Json& losses = member(row, "loss");
    if (losses.is_array() && !losses.empty() && losses.back().is_number())
      add(values, technique + ": loss", losses.back().get<double>());
  }
  return group;
}

std::vector<Group> grouped(std::vector<RunFiles> runs) {
  std::vector<std::pair<std::string, std::vector<RunFiles>>> found;
  for (RunFiles& run : runs) {
    const std::string settings = settings_of(run);
    auto same = std::ranges::find(found, settings, &decltype(found)::value_type::first);
    if (same == found.end()) same = found.insert(found.end(), {settings, {}});
    same->second.push_back(std::move(run));
  }
  std::vector<Group> groups;
  for (auto& [settings, members] : found) {
    const RunFiles& first = groups.empty() ? members.front() : groups.front().runs.front();
    std::string label = label_of(members.front(), first);
    groups.push_back(group_of(std::move(label), std::move(members)));
  }
  return groups;
}

std::vector<std::string> measure_names(const RunComparison& compared) {
  std::vector<std::string> names;
  for (const Group& group : compared.groups) {
    for (const Measures& member : group.members) {
      for (const auto& [name, value] : member.values) add_new(names, name);
    }
  }
  return names;
}

std::vector<std::vector<double>> values_of(const RunComparison& compared, std::string_view name) {
  std::vector<std::vector<double>> all;
  for (const Group& group : compared.groups) {
    std::vector<double>& values = all.emplace_back();
    for (const Measures& member : group.members) {
      const double value = value_in(member, name);
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  return all;
}

std::vector<std::optional<MeanDifference>> differences_of(const RunComparison& compared,
                                                          const std::string& name) {
  std::vector<std::optional<MeanDifference>> differences;
  const auto values = values_of(compared, name);
  const auto base = by_seed(compared.groups.front(), name);
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[0].empty() || values[i].empty()) {
      differences.emplace_back();
      continue;
    }
    const auto other = by_seed(compared.groups[i], name);
    const auto numbers_of = [](const auto& by_seed) {
      const auto numbers = std::views::values(by_seed);
      return std::vector<double>(numbers.begin(), numbers.end());
    };
    differences.push_back(
        !base.empty() && std::ranges::equal(std::views::keys(base), std::views::keys(other))
            ? paired_difference(numbers_of(base), numbers_of(other))
            : unpaired_difference(values[0], values[i]));
  }
  return differences;
}

std::vector<ConfigDifference> config_differences(const RunComparison& compared) {
  std::vector<ConfigDifference> differences;
  for (const std::string& key : keys_of(compared)) {
    ConfigDifference difference{.key = key};
    for (const Group& group : compared.groups) difference.values.push_back(setting_of(group, key));
    const bool differs = std::ranges::any_of(difference.values, [&](const std::string& value) {
      return value != difference.values.front();
    });
    if (differs) differences.push_back(std::move(difference));
  }
  return differences;
}

std::vector<double> mean_curve(const Group& group, const std::string& metric) {
  std::map<std::int64_t, std::vector<double>> by_epoch;
  for (const RunFiles& run : group.runs) {
    for (const events::EpochEnded& epoch : run.epochs) {
      if (const auto value = events::find_metric(epoch.metrics, metric))
        by_epoch[epoch.epoch].push_back(*value);
    }
  }
  std::vector<double> curve;
  for (const auto& [epoch, values] : by_epoch) curve.push_back(mean(values));
  return curve;
}

LossComparison compare_losses(const RunComparison& compared) {
  LossComparison comparison;
  std::vector<LossPoint> wanted;
  for (const RunFiles* run : runs_of(compared)) {
    std::vector<LossPoint> found = losses_of(*run);
    if (wanted.empty()) {
      wanted = std::move(found);
      comparison.losses = wanted.size();
      continue;
    }
    comparison.difference = first_difference(wanted, found, run->folder.string());
    if (!comparison.difference) continue;
    comparison.difference->hint = hint_of_settings(compared.groups.front().runs.front(), *run);
    return comparison;
  }
  return comparison;
}

std::string to_text(const LossDifference& difference, const std::string& first) {
  return fmt::format("{} {}, step {}: {} is {} in {} and {} in {}{}{}",
                     difference.of_epoch ? "the end of epoch" : "epoch", difference.epoch,
                     with_thousands(difference.step), printable(difference.metric),
                     value_text(difference.wanted), printable(first), value_text(difference.found),
                     printable(difference.run),
                     difference.hint.empty() ? "" : "\nhint: ", difference.hint);
}

std::vector<std::string> short_labels(const std::vector<std::string>& words) {
  std::vector<std::vector<Parts>> groups;
  std::vector<Parts> all;
  for (const std::string& word : words) {
    groups.push_back(paths_of(word));
    all.insert(all.end(), groups.back().begin(), groups.back().end());
  }
  const std::size_t common = common_parts(all);
  std::vector<std::string> labels;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::vector<std::string> names;
    for (const Parts& parts : groups[i])
      names.push_back(join(std::span(parts).subspan(common), "/"));
    const std::string name = names.empty() ? words[i] : join(names, ",");
    std::string label = name;
    // A run that is given twice gets two labels.
    for (int number = 2; !seen.insert(label).second; ++number)
      label = name + fmt::format(" ({})", number);
    labels.push_back(std::move(label));
  }
  return labels;
}

std::vector<std::string> gate_metrics(const RunComparison& runs) {
  std::vector<std::string> names = measure_names(runs);
  std::erase_if(names, is_own_name);
  return names;
}

std::vector<std::string> gate_metrics(std::span<const Baseline> benches) {
  std::set<std::string> names;
  for (const Baseline& bench : benches) {
    for (const BaselineRow& row : bench.rows) {
      for (const auto& [name, values] : row.samples) names.insert(name);
    }
  }
  std::erase_if(names, is_own_name);
  return {names.begin(), names.end()};
}

std::vector<GateComparison> gate_comparisons(const RunComparison& runs) {
  std::vector<GateComparison> contests;
  const Group& first = runs.groups.front();
  const std::vector<Measures> base = sorted_by_seed(first.members);
  for (const Group& group : std::span(runs.groups).subspan(1)) {
    const std::vector<Measures> now = sorted_by_seed(group.members);
    contests.push_back(
        {.technique = group.label,
         .against = "'" + first.label + "'",
         .base = samples_of(base),
         .now = samples_of(now),
         .pairing = are_pairs(base, now) ? Pairing::interleaved : Pairing::unpaired});
  }
  return contests;
}

std::vector<GateComparison> gate_comparisons(std::span<const Baseline> benches) {
  std::vector<GateComparison> contests;
  const Baseline& first = benches.front();
  for (const Baseline& bench : benches.subspan(1)) {
    for (const BaselineRow& row : bench.rows) {
      const BaselineRow* base = row_for(first, {row.settings.begin(), row.settings.end()});
      if (base == nullptr) continue;
      contests.push_back({.technique = fmt::format("{} of {}", row.technique, bench.path),
                          .against = fmt::format("'{}' of {}", base->technique, first.path),
                          .base = base->samples,
                          .now = row.samples,
                          .pairing = Pairing::unpaired});
    }
  }
  ENSURE(config, !contests.empty(), "cannot compare {}: no other bench has the same settings",
         printable(first.path));
  return contests;
}

std::vector<std::string> machine_warnings(const RunComparison& compared) {
  std::vector<std::string> sentences;
  const Group& first = compared.groups.front();
  const Json there = machines_of(first).front();
  for (const Group& group : compared.groups) {
    const bool is_first = &group == &first;
    const std::string other =
        is_first ? "another run of '" + first.label + "'" : "'" + group.label + "'";
    const std::vector<Json> machines = machines_of(group);
    for (const Json& here : std::span(machines).subspan(is_first ? 1 : 0)) {
      const auto differences = machine_differences(there, here, "'" + first.label + "'", other);
      if (differences.empty()) continue;
      sentences.push_back(fmt::format("the speeds of '{}' and {} are not comparable: {}",
                                      first.label, other, join(differences, "; ")));
      break;
    }
  }
  return sentences;
}

bool is_of_machine(const Condition& condition) {
  return is_own_name(condition.metric) || condition.metric == "wall_s" ||
         condition.metric == "gpu_util";
}

}  // namespace trainctl::report
