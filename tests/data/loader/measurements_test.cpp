#include "data/loader/measurements.hpp"

#include "data/core/memory_dataset.hpp"
#include "data/fakes.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Advances by a millisecond on every call of now().
class TickingClock final : public Clock {
 public:
  [[nodiscard]] double now() const override { return now_ += 1e-3; }

 private:
  mutable double now_ = 0;
};

LoaderOptions batches_of(std::int64_t size, int workers) {
  return {.batch_size = size, .num_workers = workers};
}

std::shared_ptr<const Dataset> in_memory(std::int64_t samples) {
  const Facts facts = MemoryDataset::facts(samples, 10, {8, 8, 3});
  return std::make_shared<const MemoryDataset>(
      facts, image_memory(facts), std::vector<std::uint8_t>(static_cast<std::size_t>(samples), 3));
}

/// Halves the size like a resize.
class Halve final : public Transform {
 public:
  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {input.height / 2, input.width / 2, input.channels};
  }
  [[nodiscard]] bool random() const override { return false; }
  void apply(const ImageView& input, ImageTarget& target, CounterRng&) const override {
    target.copy(input.window({0, 0, input.shape.height / 2, input.shape.width / 2}));
  }
};

/// Crops the upper left corner through the interface of a random crop.
class CornerCrop final : public CropTransform {
 public:
  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {4, 4, input.channels};
  }
  [[nodiscard]] bool random() const override { return false; }
  [[nodiscard]] Box box(const ImageShape&, CounterRng&) const override { return {0, 0, 4, 4}; }
  void apply_to_box(const ImageView& window, const ImageShape&, ImageTarget& output,
                    CounterRng&) const override {
    output.copy(window);
  }
};

/// Contains rows of numbers and no images.
class TableDataset final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 0; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::vector<float> values(5, static_cast<float>(indices[i]));
      std::memcpy(rows[0].data() + i * 20, values.data(), 20);
      std::memcpy(rows[1].data() + i * 8, &indices[i], 8);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "table"; }

 private:
  Layout layout_{{"features", Dtype::f32, {5}}, {"label", Dtype::i64, {}}};
};

}  // namespace

TEST_CASE("measure_loader: measures whole epochs or until the time is over") {
  for (const int workers : {0, 2}) {
    const LoaderFigures epochs =
        measure_loader(counting(100), batches_of(10, workers), {.epochs = 3}, TickingClock());
    CHECK(epochs.samples_per_s == Approx(10 / 1e-3));
    CHECK(epochs.p50_ms == Approx(1));
    CHECK(epochs.p99_ms == Approx(1));
    const LoaderFigures seconds =
        measure_loader(counting(95), batches_of(10, workers), {.seconds = 1}, TickingClock());
    CHECK(seconds.samples_per_s == Approx(9.5 / 1e-3).epsilon(0.01));
  }
}

TEST_CASE("measure_loader: the digest is that of the first epoch, for any workers") {
  const std::uint64_t expected = digest_epochs(counting(100), batches_of(10, 0), 1).epochs[0];
  for (const int workers : {0, 1, 3})
    CHECK(measure_loader(counting(100), batches_of(10, workers), {.epochs = 1}, TickingClock())
              .digest == expected);
}

TEST_CASE("measure_loader: a damaged sample is an error with its name") {
  auto dataset = std::make_shared<CountingDataset>(50);
  dataset->before = [](std::int64_t index) { ENSURE(data, index != 7, "sample 7 is torn"); };
  CHECK_THAT(failure_of([&] {
               measure_loader({dataset, {}, {}}, batches_of(10, 1), {.epochs = 1}, TickingClock());
             }),
             Contains("sample 7 is torn"));
}

TEST_CASE("measure_throughput_limit: raw images in memory are compared with a gather") {
  const LoaderOptions options = batches_of(16, 0);
  Pipeline pipeline{in_memory(100), {}, {}};
  CHECK(measure_throughput_limit(pipeline, options, 0.05, TickingClock()).name == "gather");
  pipeline.transforms = {std::make_shared<const CornerCrop>()};
  const ThroughputLimit limit = measure_throughput_limit(pipeline, options, 0.05, TickingClock());
  CHECK(limit.name == "gather");
  CHECK_FALSE(limit.per_thread);
  CHECK(limit.samples_per_s == Approx(100 / 1e-3).epsilon(0.1));
}

TEST_CASE("measure_throughput_limit: rows of a table are compared with a gather") {
  const Pipeline pipeline{std::make_shared<const TableDataset>(), {}, {}};
  CHECK(measure_throughput_limit(pipeline, batches_of(16, 0), 0.05, TickingClock()).name ==
        "gather");
}

TEST_CASE("measure_throughput_limit: resized raw images are compared with the transforms") {
  const Pipeline pipeline{in_memory(100), {std::make_shared<const Halve>()}, {}};
  const ThroughputLimit limit =
      measure_throughput_limit(pipeline, batches_of(16, 0), 0.05, TickingClock());
  CHECK(limit.name == "transforms");
  CHECK(limit.per_thread);
}

TEST_CASE("measure_throughput_limit: images made on reading are compared with decoding") {
  Pipeline pipeline = counting(100);
  CHECK(measure_throughput_limit(pipeline, batches_of(16, 0), 0.05, TickingClock()).name ==
        "decode");
  pipeline.transforms = {std::make_shared<const CornerCrop>()};
  CHECK(measure_throughput_limit(pipeline, batches_of(16, 0), 0.05, TickingClock()).name ==
        "decode");
}
