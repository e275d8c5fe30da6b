#include "base/error.hpp"
#include "data/core/dataset_split.hpp"
#include "data/fakes.hpp"
#include "data/image/codec/png.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <cstring>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

TEST_CASE("chosen samples are loaded in the order in which they were named") {
  Pipeline pipeline = counting(100);
  pipeline.dataset = subset(pipeline.dataset, {42, 7, 99});
  CHECK(pipeline.dataset->size() == 3);
  CHECK(pipeline.dataset->images()->name(1) == "sample 7");
  LoaderOptions options;
  options.batch_size = 3;
  options.order = Order::sequential;
  Loader loader(std::move(pipeline), options);
  loader.start_epoch(0);
  const Batch& batch = *loader.next();
  CHECK(batch.valid == 3);
  std::int64_t labels[3] = {};
  std::memcpy(labels, batch.fields[1].data(), sizeof labels);
  CHECK(labels[0] == 42);
  CHECK(labels[1] == 7);
  CHECK(labels[2] == 99);
}

TEST_CASE("a sample that a data set does not have cannot be chosen") {
  CHECK_THROWS_WITH(subset(counting(10).dataset, {3, 10}), Contains("sample 10 does not exist"));
  CHECK_THROWS_AS(subset(counting(10).dataset, {-1}), Error);
}

TEST_CASE("a picture shrinks to means of whole blocks, and a small one stays as it is") {
  const std::vector<std::uint8_t> pixels{0, 10, 100, 100, 20, 30, 100, 101};
  ImageShape shape;
  const ImageView image(pixels.data(), {2, 4, 1});
  CHECK(shrunk(image, 2, shape) == std::vector<std::uint8_t>{15, 100});
  CHECK(shape == ImageShape{1, 2, 1});
  CHECK(shrunk(image, 4, shape) == pixels);
  CHECK(shape == ImageShape{2, 4, 1});
  const ImageView colors(pixels.data(), {1, 2, 3});
  CHECK(shrunk(colors, 1, shape) == std::vector<std::uint8_t>{50, 15, 65});
}

TEST_CASE("the bytes of a picture are those of its file") {
  TempFolder folder;
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6};
  const ImageView image(pixels.data(), {1, 2, 3});
  write_png(folder / "a.png", image);
  CHECK(png_of(image) == golden::read(folder / "a.png"));
}
