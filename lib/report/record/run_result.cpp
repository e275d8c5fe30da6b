#include "report/record/run_result.hpp"

#include "base/strings.hpp"
#include "events/pipe.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "report/diagnosis/ranks.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {
namespace {

Json best_json(const RunRecord& record, const BestMode& mode) {
  const auto best = best_of(record);
  if (!best) return nullptr;
  return {{"metric", best->metric},         {"mode", or_null(mode.name)},
          {"mode_inferred", mode.inferred}, {"value", json_number(best->value)},
          {"epoch", best->epoch + 1},       {"checkpoint", or_null(best->checkpoint)}};
}

Json attempt_json(const Attempt& attempt) {
  return joined({JSON_FIELDS(attempt, overrides),
                 {{"folder", or_null(attempt.folder)}},
                 JSON_FIELDS(attempt, verdict, exit_code, message)});
}

Json state_json(const SavedState& state) { return JSON_FIELDS(state, path, step, verified); }

Json resumed_json(const RunRecord& record, const RunResult& ending) {
  Json state = or_null(ending.resumed_from, state_json);
  if (state.is_null() || !record.resumed) return state;
  state["bitwise"] = record.resumed->bitwise;
  if (!record.resumed->bitwise) state["why_not"] = record.resumed->why_not;
  return state;
}

Json newest_checkpoint(const RunRecord& record, const RunResult& ending) {
  if (ending.checkpoint) return state_json(*ending.checkpoint);
  const auto kept = kept_checkpoints(record);
  if (kept.empty()) return nullptr;
  return {{"path", kept.back().path}, {"step", kept.back().global_step}, {"verified", false}};
}

}  // namespace

Json failure_document(const std::optional<events::RankFailure>& failure) {
  if (!failure) return nullptr;
  const std::string& name = failure->signal_name;
  return joined({JSON_FIELDS(*failure, rank, host, pid),
                 {{"signal", name.empty() ? or_null(failure->signal) : Json(name)},
                  {"exit_code", or_null(failure->exit_code)},
                  {"step", failure->step},
                  {"phase", failure->phase},
                  {"collective", or_null(failure->collective)},
                  {"message", one_line(failure->message)}}});
}

Json result_document(const RunRecord& record, const RunResult& ending) {
  const events::Timing steady = sum_timing(steady_epochs(record));
  const auto rank0 = record.finished.find(0);
  const events::Finished end = rank0 == record.finished.end() ? events::Finished() : rank0->second;
  Json document = joined({{{"schema", "trainctl.result/2"}},
                          JSON_FIELDS(ending, verdict, exit_code, message, started_at, wall_s)});
  document["epochs"] = epochs_done(record);
  document["steps"] = record.last_step;
  document["samples_per_s"] = json_number(steady.samples_per_s);
  document["train"] = json_value(last_metrics(record, "train/"));
  document["val"] = json_value(last_metrics(record, "val/"));
  const events::Evaluated tested = record.evaluated.value_or(events::Evaluated());
  document["test"] = json_value(metrics_of(tested.metrics, "test/"));
  document["test_weights"] = or_null(tested.checkpoint);
  document["best"] = best_json(record, ending.best_mode);
  document["timing"] = events::to_json(sum_timing(record.epochs));
  document["bottleneck"] = to_json(find_bottleneck(steady, context_of(record, ending.levers)));
  document["data_digest"] = end.data_digest;
  if (end.host_waits) document["host_waits"] = *end.host_waits;
  document["skipped_samples"] = record.skipped.size();
  document["world_size"] = world_size_of(record);
  const std::vector<RankRow> ranks = rank_rows(record);
  document["ranks"] = ranks_json(ranks);
  document["straggler"] = straggler_json(ranks);
  document["restarts"] = ending.restarts;
  document["resumed_from"] = resumed_json(record, ending);
  if (!ending.attempts.empty()) document["attempts"] = json_list(ending.attempts, attempt_json);
  document["first_failure"] = failure_document(ending.first_failure);
  document["checkpoint"] = newest_checkpoint(record, ending);
  document["resume_command"] = or_null(ending.resume_command);
  return document;
}

}  // namespace trainctl::report
