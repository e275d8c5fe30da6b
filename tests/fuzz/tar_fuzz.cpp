#include "data/dataset/webdataset.hpp"
#include "fuzz/folder.hpp"

// libFuzzer: any bytes are indexed or refused as a webdataset shard, and every sample lies within
// the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trainctl;
  fuzz::put("shard.tar", data, size);
  fuzz::expect_data_error([&] {
    spec::dataset::Webdataset options;
    options.image = {"jpg", "png"};
    options.label = size % 2 == 0 ? "cls" : "json";
    const data::ShardIndex index = data::index_shard(fuzz::folder() / "shard.tar", options);
    for (std::size_t i = 0; i < index.keys.size(); ++i) {
      if (index.offsets[i] > size || index.sizes[i] > size - index.offsets[i]) std::abort();
    }
  });
  return 0;
}
