#include "base/machine/host_waits.hpp"
#include "data/cache/image_cache.hpp"
#include "data/host_images.hpp"
#include "data/transform_of.hpp"
#include "data/varied.hpp"
#include "device/device.hpp"
#include "device/event.hpp"
#include "device/kernels.hpp"
#include "device/pixel_conversion.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <torch/types.h>

using namespace trainctl;
using namespace trainctl::data::testing;

namespace {

/// Returns 5x5 images of three channels with crop, flips, erasing and normalization.
data::Pipeline varied() {
  spec::transform::RandomCrop crop;
  crop.size = {{6, 5}};
  crop.padding = {{2}};
  crop.fill = {{9, 8, 7}};
  spec::transform::RandomErasing erasing;
  erasing.value = {{70, 200, 3}};
  data::Pipeline pipeline;
  pipeline.dataset = std::make_shared<VariedDataset>(41);
  pipeline.transforms = {
      std::make_shared<Corner>(5), transform_of("random_crop", crop),
      transform_of("random_horizontal_flip", spec::transform::RandomHorizontalFlip{}),
      transform_of("random_erasing", erasing),
      transform_of("random_vertical_flip", spec::transform::RandomVerticalFlip{})};
  pipeline.normalization = {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
  return pipeline;
}

data::Pipeline held_by(const data::ImageDevice& device) {
  data::CacheBudget budget;
  budget.mode = spec::CacheMode::device;
  budget.device = &device;
  return data::with_cache(varied(), budget);
}

data::LoaderOptions options_of(int workers) {
  data::LoaderOptions options;
  options.batch_size = 6;
  options.num_workers = workers;
  options.seed = 5;
  return options;
}

std::unique_ptr<device::Feed> feed_of(const data::Loader& loader, at::Device on = at::kCPU) {
  return device::make_feed(on, {.layout = loader.layout(),
                                .normalization = loader.normalization(),
                                .max_rows = 6,
                                .classes = loader.classes(),
                                .held = loader.held()});
}

/// Checks that both loaders give the same tensors, bit for bit, for two epochs.
void compare(data::Loader& loader, at::Device on, data::Loader& expected) {
  const auto feed = feed_of(loader, on);
  const auto reference = feed_of(expected);
  for (const int epoch : {0, 1}) {
    loader.start_epoch(epoch);
    expected.start_epoch(epoch);
    int batches = 0;
    while (const data::Batch* batch = expected.next()) {
      const device::DeviceBatch& wanted = reference->put(*batch);
      const device::DeviceBatch& found = feed->put(*loader.next());
      REQUIRE(torch::equal(found.inputs.cpu(), wanted.inputs));
      REQUIRE(torch::equal(found.targets.cpu(), wanted.targets));
      ++batches;
    }
    CHECK(batches == 7);
    CHECK(loader.next() == nullptr);
  }
}

}  // namespace

TEST_CASE("device cache: pixel plans give the same floats as uncached batches") {
  const HostDevice device;
  data::Loader expected(varied(), options_of(0));
  for (const int workers : {0, 1, 2}) {
    data::Loader loader(held_by(device), options_of(workers));
    REQUIRE(loader.held());
    compare(loader, at::kCPU, expected);
  }
}

TEST_CASE("gather_pixel: every pixel is written to its position") {
  std::vector<std::uint8_t> image(2 * 3 * 3);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i * 13);
  std::vector<float> values(3 * data::kPixelCodes);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const device::Gather job{.images = image.data(),
                           .image_bytes = 18,
                           .source_width = 3,
                           .values = values.data(),
                           .rows = 1,
                           .height = 2,
                           .width = 3,
                           .channels = 3};
  std::vector<float> first(18);
  for (std::int32_t pixel = 0; pixel < 6; ++pixel)
    device::gather_pixel(job, first.data(), 0, pixel);
  const at::Tensor nchw = torch::tensor(first).view({3, 2, 3});
  for (std::int64_t i = 0; i < 18; ++i) {
    CHECK(nchw[i % 3][i / 9][i / 3 % 3].item<float>() ==
          static_cast<float>(i % 3 * data::kPixelCodes + i * 13));
  }
  CHECK(nchw[1][1][2].item<float>() == data::kPixelCodes + image[5 * 3 + 1]);
}

TEST_CASE("device cache: it is a config error on a CPU") {
  const auto images = device::make_image_device(at::kCPU);
  data::CacheBudget budget;
  budget.mode = spec::CacheMode::device;
  budget.device = images.get();
  CHECK_THAT(failure_of([&] { (void)data::with_cache(varied(), budget); }),
             StartsWith("2: ") && Contains("requires a GPU and a build with GPU kernels"));
}

TEST_CASE("launch_gather: the error states that the build has no kernels") {
  if (device::kernels_built()) skip("this build has kernels");
  CHECK_THAT(device::launch_gather({}, nullptr, nullptr), Contains("no CUDA compiler was found"));
}

TEST_CASE("device cache: a GPU computes the same floats as the CPU", "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  const at::Device gpu(at::kCUDA, 0);
  const auto images = device::make_image_device(gpu);
  data::Loader expected(varied(), options_of(0));
  for (const int workers : {0, 2}) {
    data::Loader loader(held_by(*images), options_of(workers));
    compare(loader, gpu, expected);
  }
}

TEST_CASE("Feed: a GPU converts bytes to the same floats as the CPU", "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  data::Loader expected(varied(), options_of(0));
  data::Loader loader(varied(), options_of(2));
  compare(loader, at::Device(at::kCUDA, 0), expected);
}

TEST_CASE("device cache: images that exceed the GPU's memory are a resource error",
          "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  const auto images = device::make_image_device(at::Device(at::kCUDA, 0));
  CHECK(images->free_bytes() > 0);
  CHECK_THAT(failure_of([&] { (void)images->allocate(std::uint64_t{1} << 46, 1 << 20); }),
             Contains("11: ") && Contains("64.0 TiB on cuda:0 for the images"));
}

TEST_CASE("Feed: a GPU copies batches from the ring while the loader makes the next ones",
          "[gpu]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU");
  data::LoaderOptions options = options_of(2);
  options.in_flight = 3;
  data::Loader loader(varied(), options);
  data::Loader expected(varied(), options_of(0));
  const auto reference = feed_of(expected);
  const auto before = host_waits();
  const auto feed =
      device::make_feed(at::Device(at::kCUDA, 0), {.layout = loader.layout(),
                                                   .normalization = loader.normalization(),
                                                   .max_rows = 6,
                                                   .classes = loader.classes(),
                                                   .ring = loader.memory(),
                                                   .in_flight = loader.in_flight()});
  std::vector<at::Tensor> found;
  std::vector<at::Tensor> wanted;
  for (const int epoch : {0, 1, 2}) {
    feed->drain();
    loader.start_epoch(epoch);
    expected.start_epoch(epoch);
    while (const data::Batch* batch = expected.next()) {
      wanted.push_back(reference->put(*batch).inputs.clone());
      found.push_back(feed->put(*loader.next()).inputs.clone());
    }
    CHECK(loader.next() == nullptr);
  }
  auto waits = host_waits_since(before);
  waits.erase(std::string(device::PendingCopies::kPlace));
  waits.erase("tables to convert images");
  waits.erase("copies of the last batches of an epoch");
  CHECK(waits.empty());  // the ring is page-locked
  for (std::size_t i = 0; i < wanted.size(); ++i) REQUIRE(torch::equal(found[i].cpu(), wanted[i]));
}
