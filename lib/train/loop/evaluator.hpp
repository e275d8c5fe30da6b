#pragma once

#include "train/loop/options.hpp"
#include "train/loop/session.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace trainctl::train {

/// Computes loss and metrics of one split, exactly over batches and ranks.
class Evaluator {
 public:
  Evaluator(Evaluation evaluation, const Options& options);

  /// Called after each batch with its index. Returns false to cancel the evaluation; all ranks must
  /// do so after the same batch.
  using Watch = std::function<bool(std::int64_t batch)>;
  /// Receives each batch, which says which rows are valid, and the logits of all its rows.
  using Outputs = std::function<void(const data::Batch& batch, const at::Tensor& logits)>;
  /// Evaluates at most `limit` batches. Returns nullopt if `watch` canceled the evaluation, and no
  /// metrics if the split has no labels.
  std::optional<events::Metrics> run(std::optional<std::int64_t> limit, const Watch& watch,
                                     const Outputs& outputs = {});
  /// Serializes the number of runs, which seeds the random transforms.
  void serialize(StateArchive& archive) { archive.value("runs", &runs_); }
  [[nodiscard]] const std::vector<events::TableRow>& tables() const { return tables_; }
  /// Returns draw_masks() of the first batch; rank 0 only; undefined without masks.
  [[nodiscard]] const at::Tensor& drawing() const { return drawing_; }

 private:
  class Tools;
  /// Returns the logits, which are averages over views if there is test-time augmentation.
  [[nodiscard]] at::Tensor logits_of(const at::Tensor& inputs) const;

  Evaluation on_;
  at::Device device_;
  ForwardOptions forward_;
  std::optional<spec::TestTimeAugmentation> augmentation_;
  std::unique_ptr<device::Feed> feed_;
  std::vector<events::TableRow> tables_;
  at::Tensor drawing_;
  std::int64_t runs_ = 0;  // the loader's epoch, so that its workers prefetch the next run
};

/// Returns the session's model with `loader`, which reads the split called `split`.
Evaluation evaluation_of(const Session& session, data::Loader& loader, std::string split);

/// Returns the feed that moves the loader's batches to the device.
std::unique_ptr<device::Feed> make_feed(const Evaluation& on, const Options& options);

/// Sums the metrics that are tables over the ranks and resets them. The rows have no epoch yet.
std::vector<events::TableRow> collect_tables(const Evaluation& on);

/// Sums the values over the ranks and names them: "train/loss", "train/accuracy", ... Resets the
/// metrics except tables.
events::Metrics collect_metrics(const Evaluation& on, const LossMeter& meter);

}  // namespace trainctl::train
