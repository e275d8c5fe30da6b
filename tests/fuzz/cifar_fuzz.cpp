#include "data/dataset/cifar.hpp"
#include "fuzz/folder.hpp"

// libFuzzer: any bytes are accepted or refused as CIFAR records, as a tar of records and as a
// compressed tar.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trainctl;
  if (size == 0) return 0;
  for (const char* name : {"1.bin", "c.tar", "c.tar.gz"}) fs::remove(fuzz::folder() / name);
  fuzz::put(data[0] == 'z' ? "c.tar.gz" : data[0] == 't' ? "c.tar" : "1.bin", data + 1, size - 1);
  fuzz::expect_data_error([] {
    const data::CifarSplit split{.type = "cifar10",
                                 .archive = "c.tar.gz",
                                 .folder = "none",
                                 .files = {"1.bin"},
                                 .records = 1,
                                 .classes = 10};
    const data::CifarFiles files(fuzz::folder(), split);
    (void)files.facts();
    if (files.load()->size() != 1) std::abort();
  });
  return 0;
}
