#include "device/feed.hpp"

#include "base/error.hpp"
#include "device/kernels.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <torch/types.h>

#include <cstring>

using namespace trainctl;

namespace {

struct Images {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  data::Layout layout;
  data::Batch batch;
  std::vector<std::int64_t> partners{6, 9, 0, 3};  // mixed batches have 4 rows
  std::vector<float> lambda{0.25F, 1, 0.25F, 0};

  Images(std::int64_t rows, std::int64_t height, std::int64_t width, std::int64_t channels) {
    pixels.resize(static_cast<std::size_t>(rows * height * width * channels));
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(i * 37 + i / 251);
    for (std::int64_t r = 0; r < rows; ++r) labels.push_back(r * 3);
    layout = {{"image", data::Dtype::u8, {height, width, channels}},
              {"label", data::Dtype::i64, {}}};
    batch.rows = batch.valid = batch.global_valid = rows;
    batch.fields = {std::as_bytes(std::span(pixels)), std::as_bytes(std::span(labels))};
  }

  void mix() {
    layout.push_back({"label_b", data::Dtype::i64, {}});
    layout.push_back({"lambda", data::Dtype::f32, {}});
    batch.fields.push_back(std::as_bytes(std::span(partners)));
    batch.fields.push_back(std::as_bytes(std::span(lambda)));
  }
};

/// Computes ToTensor and Normalize with torch operations.
at::Tensor torchvision(const Images& images, const data::Normalization& by) {
  const auto& shape = images.layout[0].shape;
  auto raw = torch::tensor(images.pixels).view({images.batch.rows, shape[0], shape[1], shape[2]});
  auto scaled = raw.permute({0, 3, 1, 2}).contiguous().to(torch::kFloat).div(255);
  return scaled.sub(torch::tensor(by.mean).view({1, -1, 1, 1}))
      .div(torch::tensor(by.std).view({1, -1, 1, 1}));
}

}  // namespace

TEST_CASE("Feed: images are bitwise equal to torchvision's ToTensor and Normalize") {
  SECTION("one channel") {
    Images images(5, 28, 28, 1);
    const data::Normalization by{{0.1307F}, {0.3081F}};
    const auto feed = device::make_feed(at::kCPU, {images.layout, by, 8});
    CHECK(torch::equal(feed->put(images.batch).inputs, torchvision(images, by)));
  }
  SECTION("three channels") {
    Images images(3, 16, 9, 3);
    const data::Normalization by{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
    const auto feed = device::make_feed(at::kCPU, {images.layout, by, 3});
    CHECK(torch::equal(feed->put(images.batch).inputs, torchvision(images, by)));
  }
  SECTION("without normalization, values are x / 255") {
    Images images(2, 8, 8, 1);
    const auto feed = device::make_feed(at::kCPU, {images.layout, std::nullopt, 2});
    CHECK(torch::equal(feed->put(images.batch).inputs, torchvision(images, {{0.0F}, {1.0F}})));
  }
}

TEST_CASE("Feed: tensors are reused and have only the valid rows") {
  Images images(6, 4, 4, 1);
  const auto feed = device::make_feed(at::kCPU, {images.layout, std::nullopt, 6});
  const void* first = feed->put(images.batch).inputs.data_ptr();
  images.batch.valid = 4;
  const device::DeviceBatch& partial = feed->put(images.batch);
  CHECK(partial.inputs.data_ptr() == first);
  CHECK(partial.inputs.size(0) == 4);
  CHECK(torch::equal(partial.targets, torch::tensor({0, 3, 6, 9}, torch::kLong)));
  images.batch.valid = 0;
  CHECK(feed->put(images.batch).targets.size(0) == 1);
  images.batch.valid = 6;
  CHECK(feed->put(images.batch).targets.size(0) == 6);
}

TEST_CASE("Feed: an invalid label is a data error that names it") {
  Images images(4, 2, 2, 1);
  const auto feed =
      device::make_feed(at::kCPU, {.layout = images.layout, .max_rows = 4, .classes = 10});
  CHECK(feed->put(images.batch).targets.size(0) == 4);
  images.labels[2] = GENERATE(10, -1, -100);
  try {
    feed->put(images.batch);
    FAIL("the label was accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    CHECK_THAT(error.what(), Contains(fmt::format("the label {}, but the data set has 10 classes",
                                                  images.labels[2])));
  }
  images.batch.valid = 2;  // the valid rows have valid labels
  CHECK(feed->put(images.batch).targets.size(0) == 2);
}

TEST_CASE("Feed: a normalization for another number of channels is a config error") {
  Images images(2, 4, 4, 1);
  CHECK_THROWS_AS(device::make_feed(at::kCPU, {images.layout,
                                               data::Normalization{{0.1F, 0.2F}, {1.0F, 1.0F}}, 2}),
                  Error);
}

TEST_CASE("Feed: a mixed batch has the labels and lambdas of its partners, also for padding") {
  Images images(4, 2, 2, 1);
  images.mix();
  const auto feed =
      device::make_feed(at::kCPU, {.layout = images.layout, .max_rows = 4, .classes = 10});
  const device::DeviceBatch& batch = feed->put(images.batch);
  CHECK(torch::equal(batch.targets, torch::tensor(images.labels)));
  CHECK(torch::equal(batch.targets_b, torch::tensor(images.partners)));
  CHECK(torch::equal(batch.lambda, torch::tensor(images.lambda)));
  images.batch.valid = 3;
  CHECK(feed->put(images.batch).lambda.size(0) == 3);
  images.batch.valid = 0;
  CHECK(torch::equal(feed->put(images.batch).targets_b, torch::tensor({6}, torch::kLong)));
  images.labels[1] = 10;
  images.batch.valid = 4;
  CHECK_THROWS_AS(feed->put(images.batch), Error);
}

TEST_CASE("Feed: rows and targets of floats are unchanged, and scalars become rows of one") {
  const std::vector<float> features{1, -2.5F, 3, 0, 1e30F, -0.0F};
  const std::vector<float> numbers{0.5F, -7};
  data::Batch batch;
  batch.rows = batch.valid = batch.global_valid = 2;
  batch.fields = {std::as_bytes(std::span(features)), std::as_bytes(std::span(numbers))};
  const data::Layout layout{{"features", data::Dtype::f32, {3}}, {"label", data::Dtype::f32, {}}};
  const auto feed = device::make_feed(at::kCPU, {.layout = layout, .max_rows = 2});
  const device::DeviceBatch& rows = feed->put(batch);
  CHECK(torch::equal(rows.inputs, torch::tensor(features).view({2, 3})));
  CHECK(torch::equal(rows.targets, torch::tensor(numbers).view({2, 1})));
  CHECK_FALSE(rows.lambda.defined());
  const data::Layout swapped{{"label", data::Dtype::f32, {3}}, {"features", data::Dtype::f32, {}}};
  const auto other = device::make_feed(at::kCPU, {.layout = swapped, .max_rows = 2});
  CHECK(torch::equal(other->put(batch).inputs, torch::tensor(numbers).view({2, 1})));
  CHECK(torch::equal(other->put(batch).targets, torch::tensor(features).view({2, 3})));
}

TEST_CASE("Feed: tokens and their targets are integers") {
  const std::vector<std::int64_t> tokens{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> targets{2, 3, 4, 5, 6, 50256};
  data::Batch batch;
  batch.rows = batch.valid = batch.global_valid = 2;
  batch.fields = {std::as_bytes(std::span(tokens)), std::as_bytes(std::span(targets))};
  const data::Layout layout{{"tokens", data::Dtype::i64, {3}}, {"targets", data::Dtype::i64, {3}}};
  const auto feed =
      device::make_feed(at::kCPU, {.layout = layout, .max_rows = 2, .classes = 50257});
  CHECK(torch::equal(feed->put(batch).inputs, torch::tensor(tokens).view({2, 3})));
  CHECK(torch::equal(feed->put(batch).targets, torch::tensor(targets).view({2, 3})));
}

TEST_CASE("Feed: a GPU receives the same values as the CPU", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  Images images(4, 2, 2, 3);
  images.mix();
  device::FeedOptions options{.layout = images.layout, .max_rows = 4, .classes = 10};
  if (GENERATE(true, false)) options.ring = std::as_bytes(std::span(images.pixels));
  const auto host = device::make_feed(at::kCPU, options);
  const auto gpu = device::make_feed(at::Device(at::kCUDA, 0), options);
  for (const std::int64_t valid : {4, 3, 0, 4}) {
    images.batch.valid = valid;
    const device::DeviceBatch& expected = host->put(images.batch);
    const device::DeviceBatch& found = gpu->put(images.batch);
    // One kernel computes the same bits as the host, but libtorch's separate operations round in
    // between.
    if (device::kernels_built())
      CHECK(torch::equal(found.inputs.cpu(), expected.inputs));
    else
      CHECK(mismatch(found.inputs.cpu(), expected.inputs) == "");
    CHECK(torch::equal(found.targets.cpu(), expected.targets));
    CHECK(torch::equal(found.targets_b.cpu(), expected.targets_b));
    CHECK(torch::equal(found.lambda.cpu(), expected.lambda));
  }
}

TEST_CASE("Feed: samples that cannot be used for training are a config error") {
  try {
    (void)device::make_feed(at::kCPU, {.layout = {{"label", data::Dtype::i64, {}}}});
    FAIL("a feed was made");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
  }
}
