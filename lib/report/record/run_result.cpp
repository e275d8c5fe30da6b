#include "report/record/run_result.hpp"

#include "base/strings.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "report/diagnosis/ranks.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {
namespace {

Json timing_json(const events::Timing& timing) {
  Json object = Json::object();
  for (const auto& [name, value] : timing_columns(timing))
    object[name] = or_null(value, json_number);
  object["samples"] = timing.samples;
  return object;
}

Json best_json(const RunRecord& record, const BestMode& mode) {
  const auto best = best_of(record);
  if (!best) return nullptr;
  return {{"metric", best->metric},         {"mode", or_null(mode.name)},
          {"mode_inferred", mode.inferred}, {"value", json_number(best->value)},
          {"epoch", best->epoch + 1},       {"checkpoint", or_null(best->checkpoint)}};
}

Json attempt_json(const Attempt& attempt) {
  return {{"overrides", attempt.overrides},
          {"folder", or_null(attempt.folder)},
          {"verdict", attempt.verdict},
          {"exit_code", attempt.exit_code},
          {"message", attempt.message}};
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

std::string data_digest(const RunRecord& record) {
  const auto rank0 = record.finished.find(0);
  return rank0 == record.finished.end() ? std::string() : rank0->second.data_digest;
}

std::optional<std::map<std::string, std::int64_t>> host_waits(const RunRecord& record) {
  const auto rank0 = record.finished.find(0);
  return rank0 == record.finished.end() ? std::nullopt : rank0->second.host_waits;
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
  Json document;
  document["schema"] = "trainctl.result/2";
  document["verdict"] = ending.verdict;
  document["exit_code"] = ending.exit_code;
  document["message"] = ending.message;
  document["started_at"] = ending.started_at;
  document["wall_s"] = ending.wall_s;
  document["epochs"] = epochs_done(record);
  document["steps"] = record.last_step;
  document["samples_per_s"] = json_number(steady.samples_per_s);
  document["train"] = numbers_object(last_metrics(record, "train/"));
  document["val"] = numbers_object(last_metrics(record, "val/"));
  document["best"] = best_json(record, ending.best_mode);
  document["timing"] = timing_json(sum_timing(record.epochs));
  document["bottleneck"] = to_json(find_bottleneck(steady, context_of(record, ending.levers)));
  document["data_digest"] = data_digest(record);
  if (const auto waits = host_waits(record)) document["host_waits"] = *waits;
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
