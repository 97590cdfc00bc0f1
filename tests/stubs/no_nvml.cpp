// A library that loads and is not NVIDIA's.
extern "C" int nothing_of_nvml();
extern "C" int nothing_of_nvml() { return 0; }
