#include "data/dataset/mnist.hpp"
#include "fuzz/folder.hpp"

// libFuzzer: any bytes are accepted or refused as an IDX file of images. The first byte chooses
// gzip.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trainctl;
  if (size == 0) return 0;
  const std::string images = "train-images-idx3-ubyte";
  const bool packed = data[0] == 'z';
  fs::remove(fuzz::folder() / (images + (packed ? "" : ".gz")));
  fuzz::put(images + (packed ? ".gz" : ""), data + 1, size - 1);
  const std::uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
  fuzz::put("train-labels-idx1-ubyte", labels, sizeof labels);
  fuzz::expect_data_error([] {
    spec::dataset::Idx options;
    options.root = fuzz::folder();
    if (data::IdxFiles(options, "mnist").load()->size() != 1) std::abort();
  });
  return 0;
}
