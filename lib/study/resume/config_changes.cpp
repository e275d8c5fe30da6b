#include "study/resume/config_changes.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "config/tree/node.hpp"
#include "config/tree/yaml.hpp"
#include "spec/options/base_of.hpp"
#include "spec/plugins.hpp"

namespace trainctl::study {
namespace {

struct Rule {
  std::string_view path;  // the path and everything below it
  ChangeEffect effect;
};

// Changes of other paths are refused, except for the cases in adjust_effect(). The location of a
// split may change, because fingerprints verify its samples.
constexpr std::array kRules{
    Rule{"name", ChangeEffect::harmless},
    Rule{"loggers", ChangeEffect::harmless},
    Rule{"profiler", ChangeEffect::harmless},
    Rule{"checkpoint", ChangeEffect::harmless},
    Rule{"dataset.cache", ChangeEffect::harmless},
    Rule{"dataset.remote", ChangeEffect::harmless},
    Rule{"dataset.train.root", ChangeEffect::harmless},
    Rule{"dataset.train.path", ChangeEffect::harmless},
    Rule{"dataset.val.root", ChangeEffect::harmless},
    Rule{"dataset.val.path", ChangeEffect::harmless},
    Rule{"dataset.test", ChangeEffect::harmless},
    Rule{"loader.num_workers", ChangeEffect::harmless},
    Rule{"loader.prefetch_factor", ChangeEffect::harmless},
    Rule{"loader.read_ahead", ChangeEffect::harmless},
    Rule{"loader.pin_memory", ChangeEffect::harmless},
    Rule{"distributed.timeout_s", ChangeEffect::harmless},
    Rule{"distributed.interface", ChangeEffect::harmless},
    Rule{"trainer.max_epochs", ChangeEffect::harmless},
    Rule{"trainer.max_steps", ChangeEffect::harmless},
    Rule{"trainer.max_time", ChangeEffect::harmless},
    Rule{"trainer.max_restarts", ChangeEffect::harmless},
    Rule{"trainer.hang_timeout", ChangeEffect::harmless},
    Rule{"trainer.log_every_n_steps", ChangeEffect::harmless},
    Rule{"trainer.log_norms", ChangeEffect::harmless},
    Rule{"trainer.log_layer_norms", ChangeEffect::harmless},
    Rule{"trainer.num_sanity_val_steps", ChangeEffect::harmless},
    Rule{"trainer.test", ChangeEffect::harmless},
    Rule{"trainer.allocator", ChangeEffect::harmless},
    Rule{"trainer.allow_slow_precision", ChangeEffect::harmless},
    Rule{"trainer.on_divergence", ChangeEffect::harmless},
    Rule{"trainer.devices", ChangeEffect::not_bitwise},
    Rule{"trainer.num_nodes", ChangeEffect::not_bitwise},
    Rule{"trainer.num_threads", ChangeEffect::not_bitwise},
    Rule{"trainer.deterministic", ChangeEffect::not_bitwise},
    Rule{"trainer.channels_last", ChangeEffect::not_bitwise},
    Rule{"trainer.benchmark", ChangeEffect::not_bitwise},
    Rule{"trainer.cuda_graphs", ChangeEffect::not_bitwise},
    Rule{"trainer.activation_checkpointing", ChangeEffect::not_bitwise},
    Rule{"distributed.backend", ChangeEffect::not_bitwise},
    Rule{"distributed.bucket_cap_mb", ChangeEffect::not_bitwise},
    Rule{"distributed.find_unused_parameters", ChangeEffect::not_bitwise},
    Rule{"distributed.sync_every", ChangeEffect::not_bitwise},
};

void flatten(const config::Node& node, const std::string& path,
             std::map<std::string, std::string>& values) {
  if (node.type != config::Node::Type::map || node.entries.empty()) {
    values[path] = config::flow_text(node);
    return;
  }
  for (const config::Entry& entry : node.entries)
    flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, values);
}

/// Drops a `{}` or `~` whose path has values below it in the other config, because those values
/// show the change.
void remove_parents(std::map<std::string, std::string>& values,
                    const std::map<std::string, std::string>& others) {
  std::erase_if(values, [&](const auto& value) {
    const auto below = others.lower_bound(value.first + ".");
    return (value.second == "~" || value.second == "{}") && below != others.end() &&
           below->first.starts_with(value.first + ".");
  });
}

/// Returns the paths whose values come from the file or an override, not from a default.
std::set<std::string> explicit_paths(const spec::Loaded& loaded) {
  const config::Node explicit_values = config::without_defaults(
      spec::resolved_tree(loaded), spec::experiment_schema(), spec::vocabulary_in_use());
  std::set<std::string> paths;
  for (const auto& [path, value] : flat_values(explicit_values)) paths.insert(path);
  return paths;
}

bool is_explicit(const std::set<std::string>& explicit_values, std::string path) {
  while (!explicit_values.contains(path)) {
    const std::size_t dot = path.rfind('.');
    if (dot == std::string::npos) return false;
    path.resize(dot);
  }
  return true;
}

template <class Options>
bool is_automatic(const config::Stage& stage, config::Auto<std::int64_t> Options::*length) {
  return stage.options_type == typeid(Options) && (stage.as<Options>().*length).is_auto();
}

/// Returns whether the learning rate of a step depends on the length of the run.
bool depends_on_length(const config::Stage& stage) {
  namespace scheduler = spec::scheduler;
  if (stage.options_type == typeid(scheduler::SequentialLr)) {
    const auto& all = stage.as<scheduler::SequentialLr>().schedulers;
    return !all.empty() && depends_on_length(all.back());  // milestones end the other schedulers
  }
  const scheduler::Warmup* warmup = scheduler::warmup_of(stage);
  const bool warms_up_for_a_fraction =
      warmup != nullptr && warmup->warmup.unit == scheduler::WarmupLength::Unit::run;
  return warms_up_for_a_fraction || stage.options_type == typeid(scheduler::Wsd) ||
         is_automatic(stage, &scheduler::CosineAnnealingLr::t_max) ||
         is_automatic(stage, &scheduler::LinearLr::total_iters) ||
         is_automatic(stage, &scheduler::PolynomialLr::total_iters) ||
         is_automatic(stage, &scheduler::OneCycleLr::total_steps);
}

/// Returns whether that holds for a scheduler of the optimizer's groups, at any depth.
bool groups_depend_on_length(const config::Stage& optimizer) {
  const auto* options = spec::base_of<spec::optimizer::Base>(optimizer);
  return options != nullptr && std::ranges::any_of(options->groups, [](const auto& group) {
           return depends_on_length(group.scheduler) || groups_depend_on_length(group.optimizer);
         });
}

/// Returns the effect of a change of device or detect_anomaly. A GPU has its own random generator,
/// order of sums, scale factor and check for bad gradients, and cannot resume from a state without
/// them.
ChangeEffect effect_on(const std::string& device, const ConfigChange& change,
                       const spec::Trainer& trainer) {
  const bool on_cpu = device == "cpu";
  // In these cases the scale factor or gradient check exists regardless of detect_anomaly.
  const bool always_scales = trainer.precision == spec::Precision::fp16_mixed ||
                             trainer.skip_nonfinite_steps.value_or(0) > 0;
  const bool stays = change.path == "trainer.detect_anomaly"
                         ? on_cpu || always_scales
                         : !device.empty() && change.now == (on_cpu ? "cpu" : "gpu");
  return stays ? ChangeEffect::harmless : ChangeEffect::refused;
}

/// Returns the effect of a change between two strategies: zero1 computes the same numbers as ddp,
/// and its state is looked up by parameter name.
ChangeEffect effect_of_type(const ConfigChange& change) {
  const auto averages_gradients = [](std::string_view type) {
    return type == "~" || type == "ddp" || type == "zero1";
  };
  const bool alike = averages_gradients(change.before) && averages_gradients(change.now);
  return alike ? ChangeEffect::harmless : ChangeEffect::refused;
}

void adjust_effect(ConfigChange& change, const spec::Experiment& now, const std::string& device) {
  if (change.path == "trainer.accelerator" || change.path == "trainer.detect_anomaly")
    change.effect = effect_on(device, change, now.trainer);
  // With `auto`, a resumed run uses the memory format of its checkpoint.
  if (change.path == "trainer.channels_last" && change.now == "auto")
    change.effect = ChangeEffect::harmless;
  if (change.path == "distributed.type") change.effect = effect_of_type(change);
  const bool is_length = change.path == "trainer.max_epochs" || change.path == "trainer.max_steps";
  if (is_length && (depends_on_length(now.scheduler) || groups_depend_on_length(now.optimizer))) {
    change.effect = ChangeEffect::not_bitwise;
    change.why = "the learning-rate schedule has another length";
  }
}

std::string line_of(const ConfigChange& change) {
  return fmt::format("{}: {} -> {}", change.path, printable(change.before), printable(change.now));
}

}  // namespace

std::map<std::string, std::string> flat_values(const config::Node& tree) {
  std::map<std::string, std::string> values;
  flatten(tree, "", values);
  return values;
}

std::map<std::string, std::string> resolved_values(const std::string& resolved) {
  config::Diagnostics problems;
  const config::Node tree = config::parse_yaml(
      config::make_source("the checkpoint's config", resolved), resolved, problems);
  ENSURE(checkpoint, problems.error_count() == 0 && !tree.broken,
         "cannot read the config of the checkpoint: {}", problems.render());
  return flat_values(tree);
}

ChangeEffect effect_of(std::string_view path) {
  const auto* rule = std::ranges::find_if(kRules, [&](const Rule& each) {
    return path == each.path ||
           (path.starts_with(each.path) && path.substr(each.path.size()).starts_with('.'));
  });
  return rule == kRules.end() ? ChangeEffect::refused : rule->effect;
}

std::vector<ConfigChange> config_changes(const std::string& before, const spec::Loaded& now,
                                         const std::string& device) {
  std::map<std::string, std::string> old_values = resolved_values(before);
  std::map<std::string, std::string> new_values = resolved_values(spec::dump_resolved(now));
  const auto all_old = old_values;
  remove_parents(old_values, new_values);
  remove_parents(new_values, all_old);
  const std::set<std::string> explicit_values = explicit_paths(now);
  std::vector<ConfigChange> changes;
  const auto add = [&](const std::string& path, const std::string& was, const std::string& is) {
    adjust_effect(changes.emplace_back(ConfigChange{path, was, is, effect_of(path)}),
                  now.experiment, device);
  };
  for (const auto& [path, value] : old_values) {
    const auto found = new_values.find(path);
    if (found == new_values.end()) {
      add(path, value, "~");
    } else if (found->second != value) {
      add(path, value, found->second);
    }
  }
  for (const auto& [path, value] : new_values) {
    if (!old_values.contains(path) && is_explicit(explicit_values, path)) add(path, "~", value);
  }
  std::ranges::sort(changes, {}, &ConfigChange::path);
  return changes;
}

void refuse_changes(std::span<const ConfigChange> changes, const std::string& checkpoint,
                    const std::string& batch_hint) {
  std::string lines;
  for (const ConfigChange& change : changes) {
    if (change.effect != ChangeEffect::refused) continue;
    lines += "\n  " + line_of(change);
    if (change.path == "loader.batch_size") lines += batch_hint;
  }
  ENSURE(config, lines.empty(),
         "{} was saved with another config, and a resumed run cannot change these values:{}\nhint: "
         "restore them, or omit --resume to start a new run",
         printable(checkpoint), lines);
}

std::string changes_text(std::span<const ConfigChange> changes) {
  std::string text;
  for (const ConfigChange& change : changes) {
    if (change.effect == ChangeEffect::refused) continue;
    const std::string why = change.why.empty() ? "" : ": " + change.why;
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", line_of(change),
                        change.effect == ChangeEffect::not_bitwise
                            ? " (results not bit-identical" + why + ")"
                            : "");
  }
  if (text.empty()) return "";
  const char* note = why_not_bitwise(changes).empty()
                         ? ""
                         : "; from here on the results differ from those of an unchanged run";
  return "the config has changed since the checkpoint: " + text + note;
}

std::string why_not_bitwise(std::span<const ConfigChange> changes) {
  std::string text;
  for (const ConfigChange& change : changes) {
    if (change.effect != ChangeEffect::not_bitwise) continue;
    const std::string why = change.why.empty() ? "" : fmt::format(" ({})", change.why);
    text += (text.empty() ? "" : "; ") + line_of(change) + why;
  }
  return text;
}

void accept_same_global_batch(std::vector<ConfigChange>& changes, const StepSamples& samples) {
  if (!samples.are_known() || samples.global_now() != samples.global_before()) return;
  for (ConfigChange& change : changes) {
    if (change.path != "loader.batch_size") continue;
    change.effect = ChangeEffect::not_bitwise;
    change.why = fmt::format("the global batch stays {}", with_thousands(samples.global_now()));
  }
}

std::string same_global_batch_clause(const StepSamples& samples) {
  if (!samples.are_known() || samples.global_before() % samples.ranks_now != 0) return "";
  const std::int64_t batch = samples.global_before() / samples.ranks_now;
  if (batch == samples.batch_now) return "";
  return fmt::format("; loader.batch_size={} keeps the global batch of {}", batch,
                     with_thousands(samples.global_before()));
}

std::string global_batch_notice(const StepSamples& samples) {
  if (!samples.are_known() || samples.global_now() == samples.global_before()) return "";
  const std::string keeps = same_global_batch_clause(samples);
  return fmt::format(
      "the global batch is now {} instead of {}: {} with loader.batch_size {}, previously {} with "
      "{}{}",
      with_thousands(samples.global_now()), with_thousands(samples.global_before()),
      samples.ranks_now == 1 ? "1 rank" : fmt::format("{} ranks", samples.ranks_now),
      samples.batch_now, samples.ranks_before, samples.batch_before,
      keeps.empty() ? "; no loader.batch_size keeps the global batch" : keeps);
}

std::optional<std::int64_t> resolved_number(const std::string& config, std::string_view path) {
  config::Diagnostics ignored;
  const config::Node tree =
      config::parse_yaml(config::make_source("config.resolved.yaml", config), config, ignored);
  const config::Node* node = config::find_path(tree, path);
  if (node == nullptr) return std::nullopt;
  const auto number = parse_number<std::int64_t>(node->text);
  return number && *number > 0 ? number : std::nullopt;
}

}  // namespace trainctl::study
