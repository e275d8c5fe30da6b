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

TEST_CASE("subset: samples are loaded in the given order") {
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

TEST_CASE("subset: an index outside of the data set is an error") {
  CHECK_THROWS_WITH(subset(counting(10).dataset, {3, 10}), Contains("sample 10 does not exist"));
  CHECK_THROWS_AS(subset(counting(10).dataset, {-1}), Error);
}

TEST_CASE("shrunk: averages whole blocks of pixels and keeps a small image unchanged") {
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

TEST_CASE("png_of: returns the bytes that write_png writes") {
  TempFolder folder;
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6};
  const ImageView image(pixels.data(), {1, 2, 3});
  write_png(folder / "a.png", image);
  CHECK(png_of(image) == golden::read(folder / "a.png"));
}
