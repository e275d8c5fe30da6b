#include "device/feed.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "device/pixel_conversion.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

namespace trainctl::device {
namespace {

class CpuFeed final : public Feed {
 public:
  explicit CpuFeed(const FeedOptions& options)
      : parts_(feed_parts(options)),
        classes_(options.classes),
        ignored_label_(options.ignored_label),
        held_(options.held) {
    for (const FeedPart& part : parts_) {
      full_.push_back(at::empty(part.shape, part.type));
      batch_.*part.tensor = full_.back();
      if (part.kind != FeedPart::Kind::image) continue;
      widen_.emplace(part.shape[1], options.normalization);
      if (!held_) continue;
      values_ = gather_values(options, part.shape[1]);
      gather_ = gather_of(options, part);
      gather_.values = values_.data();
    }
  }

  const DeviceBatch& put(const data::Batch& batch) override {
    const std::int64_t rows = std::max<std::int64_t>(batch.valid, 1);
    const bool resized = rows != batch_.targets.size(0);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::span<const std::byte> bytes = batch.fields[parts_[i].field];
      if (parts_[i].kind == FeedPart::Kind::classes)
        check_labels(bytes, rows, classes_, ignored_label_);
      if (resized) batch_.*parts_[i].tensor = full_[i].narrow(0, 0, rows);
      load(parts_[i], bytes, batch_.*parts_[i].tensor);
    }
    batch_.valid = batch.valid;
    batch_.global_valid = batch.global_valid;
    return batch_;
  }

 private:
  void load(const FeedPart& part, std::span<const std::byte> bytes, const at::Tensor& to) const {
    if (part.kind == FeedPart::Kind::image && held_) {
      Gather job = gather_;
      job.plans = reinterpret_cast<const data::PixelPlan*>(bytes.data());
      job.rows = to.size(0);
      gather_on_host(job, to.mutable_data_ptr<float>());
      return;
    }
    if (part.kind == FeedPart::Kind::image) {
      (*widen_)(bytes, to.size(0),
                {to.mutable_data_ptr<float>(), static_cast<std::size_t>(to.numel())});
      return;
    }
    ASSERT(bytes.size() >= to.nbytes());
    std::memcpy(to.mutable_data_ptr(), bytes.data(), to.nbytes());
  }

  std::vector<FeedPart> parts_;
  std::vector<at::Tensor> full_;  // for max_rows rows, one per part
  std::optional<PixelConversion> widen_;
  std::int64_t classes_;
  std::optional<std::int64_t> ignored_label_;
  std::shared_ptr<const data::HeldImages> held_;  // null: batches contain pixels
  std::vector<float> values_;
  Gather gather_;
  DeviceBatch batch_;
};

std::vector<std::int64_t> with_rows(std::int64_t rows, std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), rows);
  return shape;
}

}  // namespace

std::vector<FeedPart> feed_parts(const FeedOptions& options) {
  using Kind = FeedPart::Kind;
  const data::Roles roles = data::roles_of(options.layout);
  const bool image = roles.kind.inputs == spec::Inputs::images;
  const bool tokens = roles.kind.inputs == spec::Inputs::tokens;
  const bool classes = roles.kind.targets == spec::Targets::classes;
  const bool numbers = roles.kind.targets == spec::Targets::numbers;
  const std::int64_t rows = options.max_rows;
  std::vector<FeedPart> parts;
  // The labels come first, because they are checked before anything is changed.
  parts.push_back({classes ? Kind::classes : Kind::copied, roles.target, &DeviceBatch::targets,
                   numbers ? at::kFloat : at::kLong, with_rows(rows, roles.target_shape)});
  parts.push_back({image ? Kind::image : Kind::copied, roles.input, &DeviceBatch::inputs,
                   tokens ? at::kLong : at::kFloat, with_rows(rows, roles.input_shape)});
  if (roles.label_b)  // classes of the same batch, which are checked already
    parts.push_back(
        {Kind::copied, *roles.label_b, &DeviceBatch::targets_b, at::kLong, with_rows(rows, {})});
  if (roles.lambda)
    parts.push_back(
        {Kind::copied, *roles.lambda, &DeviceBatch::lambda, at::kFloat, with_rows(rows, {})});
  return parts;
}

void check_labels(std::span<const std::byte> labels_i64, std::int64_t rows, std::int64_t classes,
                  std::optional<std::int64_t> ignored) {
  if (classes == 0) return;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    std::int64_t label = 0;
    std::memcpy(&label, labels_i64.data() + row * sizeof label, sizeof label);
    ENSURE(
        data, (label >= 0 && label < classes) || label == ignored,
        "a sample has the label {}, but the data set has {} classes: labels must be from 0 to {}",
        label, classes, classes - 1);
  }
}

std::unique_ptr<Feed> make_feed(at::Device device, const FeedOptions& options) {
  if (device.is_cuda()) return make_cuda_feed(device, options);
  return std::make_unique<CpuFeed>(options);
}

}  // namespace trainctl::device
