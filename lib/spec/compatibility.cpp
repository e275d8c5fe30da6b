#include "spec/compatibility.hpp"

#include "spec/plugin_entry.hpp"
#include "spec/plugins.hpp"
#include "spec/stage_headers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::spec {
namespace {

template <class Query>
std::optional<bool> builtin_answer(const config::Stage& stage, Query query) {
  std::optional<bool> answer;
#define TRAINCTL_TAKES(kind, name, Type) \
  if (!answer) answer = stage_supports<Query, kind::Type>(stage, query);
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_TAKES)
#undef TRAINCTL_TAKES
  return answer;
}

bool has(const Plugin& plugin, const config::Stage& stage) {
  config::Vocabulary own;
  if (plugin.entry->describe != nullptr) plugin.entry->describe(own);
  return own.find(stage.kind, stage.type) != nullptr;
}

bool is_of_plugin(const config::Stage& stage) {
  return std::ranges::any_of(plugins_in_use(),
                             [&](const Plugin& plugin) { return has(plugin, stage); });
}

/// Asks the plug-in that has the stage, because options types of one name in two libraries compare
/// equal. `member` is a member of PluginEntry, which may be null.
template <class Query>
std::optional<bool> stage_answer(const config::Stage& stage, Query query,
                                 std::optional<bool> (*PluginEntry::*member)(const config::Stage&,
                                                                             Query)) {
  for (const Plugin& plugin : plugins_in_use()) {
    if (!has(plugin, stage)) continue;
    const auto ask = plugin.entry->*member;
    return ask == nullptr ? std::nullopt : ask(stage, query);
  }
  return builtin_answer(stage, query);
}

template <class Options>
void ask(const config::Stage& stage, const ModelInput& input, std::vector<Refusal>& all) {
  if constexpr (requires(const Options& options) { options.refusals(input); }) {
    if (stage.options_type == typeid(Options)) all = stage.as<Options>().refusals(input);
  }
}

template <class Options>
void change(const config::Stage& task, ModelInput& input) {
  if constexpr (requires(const Options& options) { options.model_input(input); }) {
    if (task.options_type == typeid(Options)) input = task.as<Options>().model_input(input);
  }
}

}  // namespace

bool takes(const config::Stage& stage, Targets targets) {
  return stage_answer(stage, targets, &PluginEntry::takes_targets)
      .value_or(targets == Targets::classes);
}

bool takes(const config::Stage& stage, Answers answers) {
  if (is_of_plugin(stage)) return stage.kind == "loss" && takes(stage, Targets::numbers);
  return builtin_answer(stage, answers).value_or(false);
}

bool takes(const config::Stage& loss, MixedLabels mixed) {
  return is_of_plugin(loss) || builtin_answer(loss, mixed).value_or(false);
}

bool takes(const config::Stage& model, Inputs inputs) {
  return stage_answer(model, inputs, &PluginEntry::takes_inputs).value_or(inputs != Inputs::tokens);
}

ModelInput model_input(const config::Stage& task, ModelInput data) {
  for (const Plugin& plugin : plugins_in_use()) {
    if (has(plugin, task) && plugin.entry->model_input != nullptr)
      return plugin.entry->model_input(task, std::move(data));
  }
  if (is_of_plugin(task)) return data;
#define TRAINCTL_CHANGE(kind, name, Type) change<kind::Type>(task, data);
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_CHANGE)
#undef TRAINCTL_CHANGE
  return data;
}

std::string task_name(const config::Stage& task, Targets targets) {
  if (task.options_type != typeid(spec::task::Auto)) return task.type;
  switch (targets) {
    case Targets::classes: return "classification";
    case Targets::numbers: return "regression";
    case Targets::tokens: return "language_modeling";
    case Targets::pixels: return "segmentation";
  }
  return {};
}

std::vector<Refusal> refusals(const config::Stage& stage, const ModelInput& input) {
  std::vector<Refusal> all;
#define TRAINCTL_ASK(kind, name, Type) ask<kind::Type>(stage, input, all);
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_ASK)
#undef TRAINCTL_ASK
  return all;
}

bool may_have_convolutions(const config::Stage& model) {
  constexpr std::array<std::string_view, 7> kWithout{
      "linear", "mlp", "gpt", "lstm_classifier", "lstm_lm", "bert", "torchscript"};
  return std::ranges::find(kWithout, model.type) == kWithout.end();
}

}  // namespace trainctl::spec
