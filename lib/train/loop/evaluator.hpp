#pragma once

#include "train/loop/options.hpp"
#include "train/loop/session.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace trainctl::train {

/// Loss and metrics of one split, exact over batches and ranks.
class Evaluator {
 public:
  Evaluator(Evaluation evaluation, const Options& options);

  /// Called after each batch with its number; returns false to give up, on every rank after the
  /// same batch.
  using Watch = std::function<bool(std::int64_t batch)>;
  /// Given each batch of which rows count, and the logits of all its rows.
  using Outputs = std::function<void(const data::Batch& batch, const at::Tensor& logits)>;
  /// Nothing where it was given up; no metrics without labels. `limit`: batches at most.
  std::optional<events::Metrics> run(std::optional<std::int64_t> limit, const Watch& watch,
                                     const Outputs& outputs = {});
  /// The runs so far: the draws of random transforms depend on them.
  void serialize(StateArchive& archive) { archive.value("runs", &runs_); }
  [[nodiscard]] const std::vector<events::TableRow>& tables() const { return tables_; }

 private:
  Evaluation on_;
  at::Device device_;
  ForwardOptions forward_;
  std::unique_ptr<device::Feed> feed_;
  std::vector<events::TableRow> tables_;
  std::int64_t runs_ = 0;  // counted as epochs of the loader, so that its workers fetch ahead
};

/// The session's model on a split of its data.
Evaluation evaluation_of(const Session& session, data::Loader& loader, std::string split);

/// What brings the loader's batches to the device.
std::unique_ptr<device::Feed> make_feed(const Evaluation& on, const Options& options);

/// Sums over the ranks the metrics that are tables, and resets them; their epoch is left open.
std::vector<events::TableRow> collect_tables(const Evaluation& on);

/// Sums over the ranks and names the values: "train/loss", "train/accuracy", ... Resets the
/// metrics but those that are tables.
events::Metrics collect_metrics(const Evaluation& on, const LossMeter& meter);

}  // namespace trainctl::train
