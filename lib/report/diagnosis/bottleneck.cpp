#include "report/diagnosis/bottleneck.hpp"

#include "report/diagnosis/bottleneck_rules.hpp"

namespace trainctl::report {
namespace {

using events::Usage;

using Word = const char*;

/// The name of each bottleneck in JSON, and a subject with a verb for its part of the time.
constexpr std::array<std::pair<Word, Word>, 10> kLimits{
    {{"machine_busy", "other processes take"},
     {"input_bound", "waiting for batches takes"},
     {"transfer_bound", "copying or converting batches takes"},
     {"communication_bound", "waiting for other ranks takes"},
     {"checkpoint_bound", "saving checkpoints takes"},
     {"compute_bound", "forward and backward take"},
     {"optimizer_bound", "the optimizer takes"},
     {"evaluation_bound", "validation takes"},
     {"host_bound", "work outside forward, backward and optimizer takes"},
     {"balanced", "no part dominates; the largest takes"}}};

void take_peak(std::optional<double>& peak, const std::optional<double>& value) {
  if (value) peak = std::max(peak.value_or(*value), *value);
}

constexpr std::array<std::optional<double> Usage::*, 11> kWeighted{
    &Usage::cpu_stalled,  &Usage::io_stalled,  &Usage::memory_stalled, &Usage::throttled,
    &Usage::loader_cores, &Usage::gpu_power_w, &Usage::pcie_mb_s,      &Usage::outside_cores,
    &Usage::stolen_cores, &Usage::idle_cores,  &Usage::core_wait};

/// Averages usage over epochs, each of which may lack some values.
class UsageSum {
 public:
  void add(const Usage& more) {
    for (std::size_t i = 0; i < kWeighted.size(); ++i) {
      const auto& value = more.*kWeighted[i];
      if (!value) continue;
      auto& sum = sum_.*kWeighted[i];
      sum = sum.value_or(0) + *value * more.span_s;
      spans_[i] += more.span_s;
    }
    sum_.span_s += more.span_s;
    sum_.major_faults_s += more.major_faults_s * more.span_s;
    sum_.involuntary_switches_s += more.involuntary_switches_s * more.span_s;
    sum_.cores = more.cores;
    sum_.loader_threads = std::max(sum_.loader_threads, more.loader_threads);
    take_peak(sum_.memory_taken, more.memory_taken);
    take_peak(sum_.gpu_power_limit_w, more.gpu_power_limit_w);
    throttled_spans_[more.gpu_throttle] += more.span_s;
  }

  /// Returns the average over the spans; nullopt if nothing was added.
  [[nodiscard]] std::optional<Usage> mean() const {
    if (!(sum_.span_s > 0)) return std::nullopt;
    Usage mean = sum_;
    for (std::size_t i = 0; i < kWeighted.size(); ++i) {
      if (auto& value = mean.*kWeighted[i]) *value /= spans_[i];
    }
    mean.major_faults_s /= sum_.span_s;
    mean.involuntary_switches_s /= sum_.span_s;
    for (const auto& [why, span_s] : throttled_spans_) {
      if (2 * span_s > sum_.span_s) mean.gpu_throttle = why;
    }
    return mean;
  }

 private:
  Usage sum_;
  std::array<double, kWeighted.size()> spans_{};   // seconds of the epochs that report the value
  std::map<std::string, double> throttled_spans_;  // by reason; "": not throttled
};

void add_communication(const RunRecord& record, BottleneckContext& context) {
  const std::vector<RankRow> rows = rank_rows(record);
  const RankRow* slow = slowest(rows);
  if (slow == nullptr) return;
  if (const RankRow* last = straggler(rows)) {
    context.straggler = *last;
    context.straggler_is_here = last->host == rows.front().host;
  }
  const double work_s = std::ranges::max(rows, {}, &RankRow::work_s).work_s;
  context.ranks_wait_s = slow->own_s() - work_s;
  context.overlap = rows.front().overlap;
  const auto rank0 = record.rank_epochs.find(0);
  if (rank0 != record.rank_epochs.end() && !rank0->second.empty())
    context.bucket_bytes = rank0->second.back().bucket_bytes;
}

void take_replayed_settings(const events::Finished& finished, BottleneckContext& context) {
  if (finished.larger_batch && finished.larger_batch_step_s)
    context.larger_batch = {*finished.larger_batch, *finished.larger_batch_step_s};
  if (finished.other_threads && finished.other_threads_step_s)
    context.other_threads = {*finished.other_threads, *finished.other_threads_step_s};
  context.bf16_step_s = finished.bf16_step_s;
}

struct Part {
  BottleneckKind limit;
  double seconds;
};

const Part& largest(std::span<const Part> parts) {
  return *std::ranges::max_element(parts, {}, &Part::seconds);
}

/// The part that decides, with its time.
struct TimeSplit {
  Part part;
  double waits_s = 0;
};

TimeSplit split_of(const events::Timing& timing) {
  const std::array waits{Part{BottleneckKind::input, timing.data_wait_s},
                         Part{BottleneckKind::transfer, timing.h2d_s},
                         Part{BottleneckKind::communication, timing.allreduce_exposed_s},
                         Part{BottleneckKind::checkpoint, timing.checkpoint_s}};
  const std::array work{Part{BottleneckKind::compute, passes_s(timing)},
                        Part{BottleneckKind::optimizer, timing.optimizer_s},
                        Part{BottleneckKind::evaluation, timing.eval_s},
                        Part{BottleneckKind::host, timing.other_s}};
  TimeSplit split{largest(waits)};
  for (const Part& each : waits) split.waits_s += each.seconds;
  const Part& labor = largest(work);
  const double wall_s = timing.wall_s;
  if (split.part.seconds >= kNotableWait * wall_s) return split;
  if (timing.eval_s >= kNotableEvaluation * wall_s) {
    split.part = {BottleneckKind::evaluation, timing.eval_s};
  } else {
    split.part = labor;
    if (labor.seconds < kNotableWork * wall_s) split.part.limit = BottleneckKind::balanced;
  }
  return split;
}

double factor(double wall_s, double removable_s) {
  return wall_s / std::max(wall_s - removable_s, 1e-3 * wall_s);
}

std::optional<PerfectLoader> perfect_loader(const BottleneckInputs& facts) {
  const events::Timing& timing = facts.timing;
  const double batches = facts.batches();
  const double training_s = timing.training_s();
  if (!(batches >= 1) || !(training_s > 0)) return std::nullopt;
  const auto& ranks_wait_s = facts.context.ranks_wait_s;
  double won_s = ranks_wait_s ? batches * *ranks_wait_s : timing.data_wait_s;
  PerfectLoader perfect;
  // A replay runs without the checks of detect_anomaly, which the loader does not cause.
  if (facts.context.replay_step_s && !facts.context.levers.detect_anomaly) {
    // Adds the time that the loader's threads took from concurrent steps: at most their computing
    // time.
    const auto& usage = facts.context.usage;
    const double loader_s = usage ? usage->loader_cores.value_or(0) * training_s : 0;
    won_s += std::clamp(passes_s(timing) - batches * *facts.context.replay_step_s, 0.0, loader_s);
    perfect.replayed = facts.context.replay_steps.value_or(1);
  }
  won_s = std::min(won_s, training_s);
  perfect.speedup = factor(timing.wall_s, won_s);
  perfect.now_s = training_s / batches;
  perfect.step_s = (training_s - won_s) / batches;
  return perfect;
}

void advise(const Rule& rule, const BottleneckInputs& facts, Bottleneck& found) {
  const std::vector<Proposal> proposals = rule.propose(facts);
  const auto& accepts = facts.context.levers.accepts;
  const auto chosen = std::ranges::find_if(proposals, [&](const Proposal& each) {
    return each.setting.empty() || !accepts || accepts(each.setting);
  });
  if (chosen == proposals.end()) {
    found.advice = fmt::format("fix: {} ({} is invalid)", rule.fix, proposals.front().setting);
    return;
  }
  found.setting = chosen->setting;
  found.gain = chosen->gain;
  const bool named = !chosen->setting.empty();
  found.advice =
      named ? fmt::format("try {}: {}", chosen->setting, chosen->sentence) : chosen->sentence;
}

Json perfect_json(const PerfectLoader& perfect) {
  return {{"speedup", perfect.speedup},
          {"step_s", perfect.step_s},
          {"now_step_s", perfect.now_s},
          {"replayed_steps", perfect.replayed},
          {"text", text_of(perfect)}};
}

Json gain_json(const Gain& gain) {
  return joined({JSON_FIELDS(gain, low, high, replayed), {{"text", text_of(gain)}}});
}

Json check_json(const SettingCheck& check) {
  return {{"key", check.key},
          {"compared", check.done},
          {"gain", or_null(check.gain, gain_json)},
          {"text", check.text}};
}

}  // namespace

int BottleneckContext::cores() const {
  if (usage && usage->cores > 0) return usage->cores;
  return levers.cpu_cores;
}

bool BottleneckContext::has_room_for_devices() const {
  return !on_gpu && levers.cpu_cores > world_size;
}

std::optional<Usage> sum_usage(std::span<const events::EpochEnded> epochs) {
  UsageSum sum;
  for (const events::EpochEnded& epoch : epochs) {
    if (epoch.usage && epoch.usage->span_s > 0) sum.add(*epoch.usage);
  }
  return sum.mean();
}

BottleneckContext context_of(const RunRecord& record, const AdviceSettings& levers) {
  BottleneckContext context{.levers = levers};
  if (record.started) {
    context.num_workers = record.started->num_workers;
    context.num_threads = record.started->num_threads;
    context.world_size = std::max(record.started->world_size, 1);
    context.train_samples = record.started->train_samples;
    context.max_epochs = record.started->max_epochs;
    context.batch_size = record.started->global_batch / context.world_size;
  }
  context.on_gpu =
      !record.hellos.empty() && record.hellos.begin()->second.device.starts_with("cuda");
  context.usage = sum_usage(steady_epochs(record));
  add_communication(record, context);
  if (const auto rank0 = record.finished.find(0); rank0 != record.finished.end()) {
    context.replay_step_s = rank0->second.replay_step_s;
    context.replay_steps = rank0->second.replay_steps;
    take_replayed_settings(rank0->second, context);
  }
  return context;
}

const char* name_of(BottleneckKind limit) {
  return kLimits.at(static_cast<std::size_t>(limit)).first;
}

Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context) {
  Bottleneck found;
  if (!(timing.wall_s > 0)) return found;
  const TimeSplit split = split_of(timing);
  const BottleneckInputs facts{timing, context, split.part.limit, split.part.seconds};
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
  if (found.limit == BottleneckKind::machine) {
    found.share = taken_cores(*context.usage);
    BottleneckContext quiet = context;
    quiet.usage->outside_cores.reset();
    found.otherwise.push_back(find_bottleneck(timing, quiet));
  }
  return found;
}

std::string bottleneck_text(std::string_view name, std::string_view cause, double share) {
  std::string text(name.substr(0, name.find('_')));
  const auto rule = std::ranges::find(rules(), cause, &Rule::cause);
  if (rule != rules().end() && rule->verdict) return text + ": " + rule->diagnosis;
  const auto known = std::ranges::find(kLimits, name, &std::pair<Word, Word>::first);
  if (known == kLimits.end()) return text;
  return fmt::format("{}: {} {} % of the epoch time", text, known->second, percent_text(share));
}

std::string text_of(const PerfectLoader& perfect) {
  constexpr double kWorthIt = 1.05;
  const std::string how =
      perfect.replayed > 0 ? fmt::format("measured in {} steps on the same batch", perfect.replayed)
                           : std::string("computed from the step times");
  const char* stop = perfect.speedup < kWorthIt ? ", so data loading is not the bottleneck" : "";
  return fmt::format("if data loading took no time, the run would be {:.2f}x as fast as now ({}){}",
                     perfect.speedup, how, stop);
}

Json to_json(const Bottleneck& bottleneck) {
  return {{"verdict", name_of(bottleneck.limit)},
          {"share", bottleneck.share},
          {"headroom", or_null(bottleneck.gain.high)},
          {"gain", gain_json(bottleneck.gain)},
          {"advice", bottleneck.advice},
          {"cause", or_null(bottleneck.cause)},
          {"diagnosis", bottleneck.diagnosis},
          {"setting", or_null(bottleneck.setting)},
          {"checks", json_list(bottleneck.checks, check_json)},
          {"perfect_loader", or_null(bottleneck.perfect_loader, perfect_json)},
          {"evidence", json_list(bottleneck.evidence, JSON_OF(name, value, unit, text))},
          {"otherwise",
           bottleneck.otherwise.empty() ? Json(nullptr) : to_json(bottleneck.otherwise.front())}};
}

}  // namespace trainctl::report
