// The table of vendors: counting, opening and looking for GPUs of several.
#include "driver/gpu_vendors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "base/text.h"
#include "support/expect_fault.h"

namespace flyball::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kStubFolder = FLYBALL_STUB_DIR;

// Of three boards the second is lost: GPU-old-0 and GPU-old-2 are open.
const GpuVendor kOldNvidia{"nvml", {kStubFolder + "/libold_nvml_stub.so"}, load_nvml};
const GpuVendor kAmd{"amd-smi", {kStubFolder + "/libamd_smi_stub.so"}, load_amd_smi};
const GpuVendor kAbsent{"nvml", {"libnvidia-ml-absent.so.1"}, load_nvml};
// A vendor that a test adds, without a board that opens.
const GpuVendor kThird{"third", {"libthird.so"}, [](const std::vector<std::string>& libraries) {
                         CountedBoards boards;
                         boards.version = libraries.front();
                         boards.count = 1;
                         boards.open = [](std::size_t, std::size_t index) -> std::shared_ptr<GpuDevice> {
                           throw DeviceError(DeviceFault::kLost, "GPU:" + std::to_string(index), "the third's");
                         };
                         return boards;
                       }};
const GpuVendor kSilent{"silent", {}, [](const std::vector<std::string>&) -> CountedBoards {
                          throw DeviceError(DeviceFault::kTimeout, "silent", "has not answered");
                        }};

class GpuVendors : public ::testing::Test {
 protected:
  static std::vector<std::string> labels_of(const OpenedGpus& opened) {
    std::vector<std::string> labels;
    for (const auto& gpu : opened.gpus) labels.push_back(gpu->label());
    return labels;
  }
};

TEST_F(GpuVendors, NumbersAllBoardsVendorAfterVendor) {
  const OpenedGpus opened = open_gpus({kOldNvidia, kThird, kAmd});
  EXPECT_THAT(labels_of(opened), ElementsAre("GPU:0", "GPU:2", "GPU:4", "GPU:5"));
  ASSERT_EQ(opened.refused.size(), 2u);
  EXPECT_EQ(opened.refused[1].index, 3u);
  expect_fault([&] { return opened.refused[1].open(); }, DeviceFault::kLost, "GPU:3", "the third's");
  ASSERT_EQ(opened.drivers.size(), 3u);
  EXPECT_EQ(opened.drivers[1].vendor, "third");
  EXPECT_EQ(opened.drivers[1].version, "libthird.so");
}

TEST_F(GpuVendors, NamesTheDriversThatAreNotThere) {
  const OpenedGpus opened = open_gpus({kAbsent, kAmd});
  EXPECT_THAT(labels_of(opened), ElementsAre("GPU:0", "GPU:1"));
  ASSERT_EQ(opened.unavailable.size(), 1u);
  EXPECT_EQ(opened.unavailable[0].fault(), DeviceFault::kNoDriver);
  EXPECT_THAT(open_gpus({kAbsent}).gpus, IsEmpty());
}

TEST_F(GpuVendors, FindANumberAmongTheBoardsOfAll) {
  EXPECT_EQ(find_gpu({2, {}, {}, {}}, {kOldNvidia, kAmd})->identity().uuid, "GPU-old-2");
  const auto amd = find_gpu({3, {}, {}, {}}, {kOldNvidia, kAmd});
  EXPECT_EQ(amd->identity().name, "AMD Instinct MI300X");
  EXPECT_EQ(amd->label(), "GPU:3");
  expect_fault(
      [] {
        return find_gpu({5, {}, {}, {}}, {kOldNvidia, kAmd});
      },
      DeviceFault::kLost, "GPU:5", "there is no such GPU; this machine has 5");
  expect_fault(
      [] {
        return find_gpu({1, {}, {}, {}}, {kOldNvidia, kAmd});
      },
      DeviceFault::kLost, "GPU:1", "opening the device");
  expect_fault(
      [] {
        return find_gpu({0, {}, {}, {}}, {kAbsent});
      },
      DeviceFault::kNoDriver, "nvml", "install the NVIDIA driver");
}

TEST_F(GpuVendors, FindABoardWhateverItsNumber) {
  const std::vector<GpuVendor> both{kOldNvidia, kAmd};
  EXPECT_EQ(find_gpu({0, "c4ff74a1-0000-1000-80ce-f19c57a2f31c", {}, {}}, both)->label(), "GPU:3");
  // Another version of the library may know it by another UUID, and write its place in another way.
  EXPECT_EQ(find_gpu({0, "from-another-version", {}, "0001:c6:01.2"}, both)->label(), "GPU:4");
  EXPECT_EQ(find_gpu({4, {}, {}, "00000000:3B:00.0"}, both)->label(), "GPU:0");
  // A board of another machine, in the place where this one has one; it may be the one here that cannot be opened.
  expect_fault(
      [&] {
        return find_gpu({4, "GPU-of-another-machine", {}, "00000000:3B:00.0"}, both);
      },
      DeviceFault::kLost, "GPU:1", "device lost");
  expect_fault(
      [] {
        return find_gpu({0, "nobody's", {}, {}}, {kAmd});
      },
      DeviceFault::kLost, "GPU:0", "none of the 2 GPUs here");
  // Which of the two it is, nobody can tell.
  expect_fault(
      [] {
        return find_gpu({0, "nobody's", {}, {}}, {kThird, kAmd});
      },
      DeviceFault::kLost, "GPU:0", "the third's");
}

TEST_F(GpuVendors, ALibraryThatDoesNotAnswerHidesOnlyNumbersAfterIt) {
  EXPECT_EQ(find_gpu({1, {}, {}, {}}, {kAmd, kSilent})->label(), "GPU:1") << "it is not even asked";
  expect_fault(
      [] {
        return find_gpu({1, {}, {}, {}}, {kSilent, kAmd});
      },
      DeviceFault::kTimeout, "silent", "has not answered");
  EXPECT_EQ(find_gpu({9, {}, {}, "00000001:C6:01.2"}, {kSilent, kAmd})->identity().uuid, "PCI-00000001:C6:01.2");
  expect_fault(
      [] {
        return find_gpu({0, "nobody's", {}, {}}, {kSilent, kAmd});
      },
      DeviceFault::kTimeout, "silent", "has not answered");
  EXPECT_THAT(labels_of(open_gpus({kSilent, kAmd})), ElementsAre("GPU:0", "GPU:1"));
}

// The promise of gpu_vendors.h. AMD's is the one that nothing simulates or has as its example.
TEST_F(GpuVendors, AreKnownToFourFilesEach) {
  const std::filesystem::path root = FLYBALL_SOURCE_DIR;
  std::set<std::string> files;
  for (const char* folder : {"src", "include", "python", "docs/manual"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string kind = entry.path().extension().string();
      if (!entry.is_regular_file() || (kind != ".cpp" && kind != ".h" && kind != ".py" && kind != ".md")) continue;
      const std::string text = read_text_file(entry.path().string());
      for (const char* name : {"amd_smi", "amd-smi", "AmdSmi"}) {
        if (text.find(name) != std::string::npos) files.insert(entry.path().filename().string());
      }
    }
  }
  EXPECT_THAT(files, ElementsAre("amd_smi.cpp", "amd_smi_abi.h", "devices.md", "gpu_vendors.h"));
}

}  // namespace
}  // namespace flyball::testing
