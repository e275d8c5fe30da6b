#include "device/feed.hpp"

#include "base/error.hpp"
#include "device/cuda.hpp"
#include "device/widen.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace trainctl::device {
namespace {

class CpuFeed final : public Feed {
 public:
  explicit CpuFeed(const FeedOptions& options)
      : fields_(image_fields(options.layout)),
        widen_(fields_.channels, options.normalization),
        classes_(options.classes) {
    full_inputs_ =
        at::empty({options.max_rows, fields_.channels, fields_.height, fields_.width}, at::kFloat);
    full_targets_ = at::empty({options.max_rows}, at::kLong);
    batch_.inputs_nchw = full_inputs_;
    batch_.targets = full_targets_;
  }

  const DeviceBatch& put(const data::Batch& batch) override {
    const std::int64_t rows = std::max<std::int64_t>(batch.valid, 1);
    check_labels(batch.fields[fields_.label], rows, classes_);
    if (rows != batch_.targets.size(0)) {
      batch_.inputs_nchw = full_inputs_.narrow(0, 0, rows);
      batch_.targets = full_targets_.narrow(0, 0, rows);
    }
    const auto floats =
        static_cast<std::size_t>(rows * fields_.channels * fields_.height * fields_.width);
    widen_(batch.fields[fields_.image], rows, {full_inputs_.mutable_data_ptr<float>(), floats});
    std::memcpy(full_targets_.mutable_data_ptr<std::int64_t>(), batch.fields[fields_.label].data(),
                static_cast<std::size_t>(rows) * sizeof(std::int64_t));
    batch_.valid = batch.valid;
    batch_.global_valid = batch.global_valid;
    return batch_;
  }

 private:
  ImageFields fields_;
  Widen widen_;
  std::int64_t classes_;
  at::Tensor full_inputs_;
  at::Tensor full_targets_;
  DeviceBatch batch_;
};

}  // namespace

ImageFields image_fields(const data::Layout& layout) {
  ImageFields found;
  bool image = false;
  bool label = false;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const data::Field& field = layout[i];
    if (field.dtype == data::Dtype::u8 && field.shape.size() == 3) {
      found.image = i;
      found.height = field.shape[0];
      found.width = field.shape[1];
      found.channels = field.shape[2];
      image = true;
    } else if (field.dtype == data::Dtype::i64 && field.shape.empty()) {
      found.label = i;
      label = true;
    }
  }
  ENSURE(config, image && label,
         "the samples need an image (uint8, height x width x channels) and a label (int64)");
  return found;
}

void check_labels(std::span<const std::byte> labels_i64, std::int64_t rows, std::int64_t classes) {
  if (classes == 0) return;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    std::int64_t label = 0;
    std::memcpy(&label, labels_i64.data() + row * sizeof label, sizeof label);
    ENSURE(data, label >= 0 && label < classes,
           "a sample has the label {}, but the data set has {} classes: labels run from 0 to {}",
           label, classes, classes - 1);
  }
}

std::unique_ptr<Feed> make_feed(at::Device device, const FeedOptions& options) {
  if (device.is_cuda()) return make_cuda_feed(device, options);
  return std::make_unique<CpuFeed>(options);
}

}  // namespace trainctl::device
