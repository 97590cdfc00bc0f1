// The figures themselves, each beside its source. To change one is to change what docs/forecast-estimates.md judges.
#include "forecast/hardware_table.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace flyball {
namespace {

constexpr double kV100 = 125e12;
constexpr double kA100 = 312e12;
constexpr double kH100 = 989e12;
constexpr double kTpuV3 = 123e12;
constexpr double kTpuV4 = 275e12;

// Measured while training, over the limit that then held.
constexpr double kA100Load = 278.0 / 300.0;
constexpr double kV100Load = 223.4 / 250.0;

constexpr std::array kTrainingGpus = {
    TrainingGpu{"v100", "NVIDIA V100 SXM2", kV100, Watts(300), kV100Load, "NVIDIA V100 data sheet, page 1"},
    TrainingGpu{"a100", "NVIDIA A100 SXM4", kA100, Watts(400), kA100Load, "NVIDIA A100 data sheet, page 1"},
    TrainingGpu{"h100", "NVIDIA H100 SXM5", kH100, Watts(700), std::nullopt,
                "NVIDIA H100 product page: 1,979 TFLOPS with sparsity, 700 W"},
    TrainingGpu{"h800", "NVIDIA H800 SXM5", kH100, Watts(700), std::nullopt,
                "as H100, from which it differs in links and 64-bit arithmetic (philisun.com, second hand)"},
    TrainingGpu{"h200", "NVIDIA H200 SXM5", kH100, Watts(700), std::nullopt,
                "itkb.uw.cz, 22 June 2026 (second hand): 989 TFLOPS dense, 700 W"},
    TrainingGpu{"b200", "NVIDIA B200", 2250e12, Watts(1000), std::nullopt,
                "huggingface.co, ai-inference-hardware-economics-2026 (second hand)"},
    TrainingGpu{"mi300x", "AMD Instinct MI300X", 1307.4e12, Watts(750), std::nullopt,
                "AMD's peak as roofline tools quote it, and codesota.com (both second hand)"},
};

constexpr double kPythiaTokens = 299892736000.0;
constexpr std::string_view kPythia = "Biderman et al. 2023, arXiv 2304.01373, table 5";

constexpr std::array kRuns = {
    PublishedRun{"Pythia", "Pythia 1B", 805736448.0 + 2 * 50304.0 * 2048, kPythiaTokens, 4830, kA100, kPythia},
    PublishedRun{"Pythia", "Pythia 1.4B", 1208602624.0 + 2 * 50304.0 * 2048, kPythiaTokens, 7120, kA100, kPythia},
    PublishedRun{"Pythia", "Pythia 2.8B", 2517652480.0 + 2 * 50304.0 * 2560, kPythiaTokens, 14240, kA100, kPythia},
    PublishedRun{"Pythia", "Pythia 6.9B", 6444163072.0 + 2 * 50304.0 * 4096, kPythiaTokens, 33500, kA100, kPythia},
    PublishedRun{"Pythia", "Pythia 12B", 11327027200.0 + 2 * 50304.0 * 5120, kPythiaTokens, 72300, kA100, kPythia},
    PublishedRun{"Falcon", "Falcon 180B", 179522565120.0, 3.5e12, 7.0e6, kA100,
                 "huggingface.co/blog/falcon-180b, 2023: about 7,000,000 GPU hours"},
    PublishedRun{"MPT", "MPT-7B", 6.7e9, 1e12, 440 * 9.5 * 24, kA100,
                 "databricks.com/blog/mpt-7b, 5 May 2023: 9.5 days on 440 GPUs"},
    PublishedRun{"BloombergGPT", "BloombergGPT 50B", 50.6e9, 569e9, 512 * 53.0 * 24, kA100,
                 "Wu et al. 2023, arXiv 2303.17564, table 4: 53 days on 512 GPUs"},
    PublishedRun{"PaLM", "PaLM 540B", 540.35e9, 780e9, 6144.0 * 1200 + 3072.0 * 336, kTpuV4,
                 "Chowdhery et al. 2022, arXiv 2204.02311, appendix B"},
    PublishedRun{"Gopher", "Gopher 280B", 280e9, 300e9, 4096.0 * 920, kTpuV3,
                 "Rae et al. 2021, arXiv 2112.11446: 920 hours on 4,096 chips"},
    PublishedRun{"GLM", "GLM-130B", 130e9, 400e9, 768.0 * 60 * 24, kA100,
                 "Zeng et al. 2022, arXiv 2210.02414: 60 days on 768 GPUs, an upper bound"},
};

constexpr std::string_view kZeus = "You et al. 2023 (Zeus), BERT at the largest batch and the highest limit";
constexpr std::string_view kPerseus = "Chung et al. 2024 (Perseus), artifact, all-maximum clocks, mean of the ranks";

constexpr std::array kLoads = {
    PublishedFigure{"A100, GPT-3 1.3B", kA100Load, kPerseus},  PublishedFigure{"V100, BERT", kV100Load, kZeus},
    PublishedFigure{"A40, Bloom 3B", 248.6 / 300.0, kPerseus}, PublishedFigure{"RTX 6000, BERT", 249.4 / 260.0, kZeus},
    PublishedFigure{"P100, BERT", 168.4 / 250.0, kZeus},
};

constexpr std::array kNodes = {
    PublishedFigure{"8 x H100, Llama 2 13B and ResNet", 8400.0 / 5600.0,
                    "Latif et al. 2025, IEEE Access 13: node at most 8.4 kW, GPUs near full use"},
    PublishedFigure{"Google's servers", (58.0 + 25.0) / 58.0,
                    "Elsworth et al. 2025, arXiv 2508.15734: accelerators 58 %, host 25 %"},
};

constexpr std::array kSites = {
    PublishedFigure{"Google, 2020", 1.10, "Patterson et al. 2021, arXiv 2104.10350, table 4"},
    PublishedFigure{"Google, TPU v4, 2022", 1.08, "Chowdhery et al. 2022, arXiv 2204.02311, appendix B"},
    PublishedFigure{"IDRIS, 2022", 1.20, "Luccioni et al. 2022, arXiv 2211.02001"},
    PublishedFigure{"Ai2 Jupiter, 2024", 1.20, "OLMo team 2025, arXiv 2501.00656, table 19"},
    PublishedFigure{"Ai2 Augusta, 2024", 1.12, "OLMo team 2025, arXiv 2501.00656, table 19"},
};

constexpr EmbodiedCarbon kEmbodied = {
    2500.0, 150.0, 8.0,
    6.0,    0.85,  "Luccioni et al. 2022, arXiv 2211.02001, section 4.1: server 2,500 kg, GPU 150 kg, 6 years at 85 %"};

constexpr std::array kRegions = {
    RegionIntensity{"ARE", "United Arab Emirates", 467.51},
    RegionIntensity{"AUS", "Australia", 553.76},
    RegionIntensity{"AUT", "Austria", 102.62},
    RegionIntensity{"BEL", "Belgium", 117.58},
    RegionIntensity{"BRA", "Brazil", 106.06},
    RegionIntensity{"CAN", "Canada", 184.99},
    RegionIntensity{"CHE", "Switzerland", 36.72},
    RegionIntensity{"CHN", "China", 557.50},
    RegionIntensity{"DEU", "Germany", 342.06},
    RegionIntensity{"DNK", "Denmark", 143.30},
    RegionIntensity{"ESP", "Spain", 146.15},
    RegionIntensity{"EU", "European Union", 213.02},
    RegionIntensity{"FIN", "Finland", 72.25},
    RegionIntensity{"FRA", "France", 44.18},
    RegionIntensity{"GBR", "United Kingdom", 215.79},
    RegionIntensity{"IND", "India", 708.96},
    RegionIntensity{"IRL", "Ireland", 279.79},
    RegionIntensity{"ISL", "Iceland", 28.33},
    RegionIntensity{"ITA", "Italy", 287.75},
    RegionIntensity{"JPN", "Japan", 483.73},
    RegionIntensity{"KOR", "South Korea", 415.65},
    RegionIntensity{"NLD", "Netherlands", 252.70},
    RegionIntensity{"NOR", "Norway", 30.75},
    RegionIntensity{"POL", "Poland", 614.98},
    RegionIntensity{"SAU", "Saudi Arabia", 691.95},
    RegionIntensity{"SGP", "Singapore", 498.74},
    RegionIntensity{"SWE", "Sweden", 35.89},
    RegionIntensity{"TWN", "Taiwan", 635.15},
    RegionIntensity{"USA", "United States", 383.55},
    RegionIntensity{"WORLD", "world", 472.94},
    RegionIntensity{"ZAF", "South Africa", 713.90},
};

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::span<const TrainingGpu> training_gpus() { return kTrainingGpus; }
std::span<const PublishedRun> calibrating_runs() { return kRuns; }
std::span<const PublishedFigure> load_shares() { return kLoads; }
std::span<const PublishedFigure> node_factors() { return kNodes; }
std::span<const PublishedFigure> site_pues() { return kSites; }
const EmbodiedCarbon& published_embodied_carbon() { return kEmbodied; }
std::span<const RegionIntensity> region_intensities() { return kRegions; }

std::string_view region_source() {
  return "yearly means of 2023 or 2024 by Ember (CC BY-SA 4.0), as in @tgwf/co2 0.19.0";
}

const TrainingGpu* find_gpu_model(std::string_view name) {
  for (const TrainingGpu& gpu : kTrainingGpus) {
    if (same_word(gpu.name, name)) return &gpu;
  }
  return nullptr;
}

const RegionIntensity* find_region(std::string_view code_or_name) {
  for (const RegionIntensity& region : kRegions) {
    if (same_word(region.code, code_or_name) || same_word(region.name, code_or_name)) return &region;
  }
  return nullptr;
}

}  // namespace flyball
