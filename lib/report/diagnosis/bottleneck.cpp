#include "report/diagnosis/bottleneck.hpp"

#include "report/diagnosis/bottleneck_gains.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"
#include "report/diagnosis/bottleneck_text.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace trainctl::report {
namespace {

struct Part {
  Limit limit;
  double seconds;
};

const Part& largest(std::span<const Part> parts) {
  return *std::ranges::max_element(parts, {}, &Part::seconds);
}

/// The part that decides, with what it takes.
struct Split {
  Part part;
  double waits_s = 0;
};

Split split_of(const events::Timing& timing) {
  const std::array waits{Part{Limit::input, timing.data_wait_s},
                         Part{Limit::transfer, timing.h2d_s},
                         Part{Limit::communication, timing.allreduce_exposed_s},
                         Part{Limit::checkpoint, timing.checkpoint_s}};
  const std::array work{Part{Limit::compute, timing.forward_s + timing.backward_s},
                        Part{Limit::optimizer, timing.optimizer_s},
                        Part{Limit::evaluation, timing.eval_s}, Part{Limit::host, timing.other_s}};
  Split split{largest(waits)};
  for (const Part& each : waits) split.waits_s += each.seconds;
  const Part& labour = largest(work);
  const double wall_s = timing.wall_s;
  if (split.part.seconds >= kNotableWait * wall_s) return split;
  if (timing.eval_s >= kNotableEvaluation * wall_s) {
    split.part = {Limit::evaluation, timing.eval_s};
  } else {
    split.part = labour;
    if (labour.seconds < kNotableWork * wall_s) split.part.limit = Limit::balanced;
  }
  return split;
}

double factor(double wall_s, double removable_s) {
  return wall_s / std::max(wall_s - removable_s, 1e-3 * wall_s);
}

std::optional<PerfectLoader> perfect_loader(const Facts& facts) {
  const events::Timing& timing = facts.timing;
  const double batches = facts.batches();
  const double training_s = timing.wall_s - timing.eval_s - timing.checkpoint_s;
  if (!(batches >= 1) || !(training_s > 0)) return std::nullopt;
  const auto& ranks_wait_s = facts.context.ranks_wait_s;
  double won_s = ranks_wait_s ? batches * *ranks_wait_s : timing.data_wait_s;
  PerfectLoader perfect;
  // A replay is without the checks of detect_anomaly, which are not the loader's fault.
  if (facts.context.replay_step_s && !facts.context.levers.detect_anomaly) {
    // What the loader's threads took from the step beside it: no more than they computed.
    const double passes_s = timing.forward_s + timing.backward_s;
    const auto& usage = facts.context.usage;
    const double loader_s = usage ? usage->loader_cores.value_or(0) * training_s : 0;
    won_s += std::clamp(passes_s - batches * *facts.context.replay_step_s, 0.0, loader_s);
    perfect.replayed = facts.context.replay_steps.value_or(1);
  }
  won_s = std::min(won_s, training_s);
  perfect.speedup = factor(timing.wall_s, won_s);
  perfect.now_s = training_s / batches;
  perfect.step_s = (training_s - won_s) / batches;
  return perfect;
}

bool is_accepted(const Proposal& proposal, const Levers& levers) {
  return proposal.setting.empty() || !levers.accepts || levers.accepts(proposal.setting);
}

void advise(const Rule& rule, const Facts& facts, Bottleneck& found) {
  const std::vector<Proposal> proposals = rule.propose(facts);
  const auto chosen = std::ranges::find_if(
      proposals, [&](const Proposal& each) { return is_accepted(each, facts.context.levers); });
  if (chosen == proposals.end()) {
    found.advice = fmt::format("{}; this experiment accepts no setting for it", rule.fix);
    return;
  }
  found.setting = chosen->setting;
  found.gain = chosen->gain;
  const bool named = !chosen->setting.empty();
  found.advice =
      named ? fmt::format("try {}: {}", chosen->setting, chosen->sentence) : chosen->sentence;
}

Json perfect_json(const std::optional<PerfectLoader>& perfect) {
  if (!perfect) return nullptr;
  return {{"speedup", perfect->speedup},
          {"step_s", perfect->step_s},
          {"now_step_s", perfect->now_s},
          {"replayed_steps", perfect->replayed},
          {"text", text_of(*perfect)}};
}

Json gain_json(const Gain& gain) {
  return {{"low", gain.low},
          {"high", gain.high ? Json(*gain.high) : Json(nullptr)},
          {"replayed", gain.replayed},
          {"text", text_of(gain)}};
}

Json checks_json(const std::vector<SettingCheck>& checks) {
  Json list = Json::array();
  for (const SettingCheck& each : checks) {
    list.push_back({{"key", each.key},
                    {"compared", each.done},
                    {"gain", each.gain ? gain_json(*each.gain) : Json(nullptr)},
                    {"text", each.text}});
  }
  return list;
}

Json evidence_json(const std::vector<Evidence>& evidence) {
  Json list = Json::array();
  for (const Evidence& each : evidence) {
    list.push_back({{"name", each.name},
                    {"value", json_number(each.value)},
                    {"unit", each.unit},
                    {"text", each.text}});
  }
  return list;
}

}  // namespace

const char* name_of(Limit limit) {
  constexpr std::array kNames{
      "machine_busy",     "input_bound",   "transfer_bound",  "communication_bound",
      "checkpoint_bound", "compute_bound", "optimizer_bound", "evaluation_bound",
      "host_bound",       "balanced"};
  return kNames[static_cast<std::size_t>(limit)];
}

Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context) {
  Bottleneck found;
  if (!(timing.wall_s > 0)) return found;
  const Split split = split_of(timing);
  const Facts facts{timing, context, split.part.limit, split.part.seconds};
  const Rule& rule = rule_for(facts);
  found.part = split.part.limit;
  found.limit = rule.verdict.value_or(split.part.limit);
  found.cause = rule.cause;
  found.diagnosis = rule.diagnosis;
  found.share = split.part.seconds / timing.wall_s;
  found.without_waits = factor(timing.wall_s, timing.other_s + split.waits_s);
  const bool has_no_room = rule.next == Next::more_devices && !context.has_room_for_devices();
  found.next = has_no_room ? Next::tune : rule.next;
  found.perfect_loader = perfect_loader(facts);
  found.checks = gains::checks_of(facts);
  found.evidence = evidence_of(facts, rule);
  advise(rule, facts, found);
  if (found.limit == Limit::machine) {
    found.share = taken_cores(*context.usage);
    BottleneckContext quiet = context;
    quiet.usage->outside_cores.reset();
    found.otherwise.push_back(find_bottleneck(timing, quiet));
  }
  return found;
}

std::string text_of(const PerfectLoader& perfect) {
  constexpr double kWorthIt = 1.05;
  const std::string gain = fmt::format("a perfect loader would give {:.2f}x", perfect.speedup);
  const std::string how = perfect.replayed > 0
                              ? fmt::format("by {} steps with one batch replayed", perfect.replayed)
                              : std::string("by the steps as they were, without their waits");
  const char* stop = perfect.speedup < kWorthIt ? ": stop here, loading is not the limit" : "";
  return fmt::format("{}{} ({})", gain, stop, how);
}

Json to_json(const Bottleneck& bottleneck) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  return {{"verdict", name_of(bottleneck.limit)},
          {"share", bottleneck.share},
          {"headroom", bottleneck.gain.high ? Json(*bottleneck.gain.high) : Json(nullptr)},
          {"gain", gain_json(bottleneck.gain)},
          {"advice", bottleneck.advice},
          {"cause", or_null(bottleneck.cause)},
          {"diagnosis", bottleneck.diagnosis},
          {"setting", or_null(bottleneck.setting)},
          {"checks", checks_json(bottleneck.checks)},
          {"perfect_loader", perfect_json(bottleneck.perfect_loader)},
          {"evidence", evidence_json(bottleneck.evidence)},
          {"otherwise",
           bottleneck.otherwise.empty() ? Json(nullptr) : to_json(bottleneck.otherwise.front())}};
}

}  // namespace trainctl::report
