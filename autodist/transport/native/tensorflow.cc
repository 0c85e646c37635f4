#include "tensorflow.h"

#include <dlfcn.h>

#include <type_traits>

namespace autodist {
namespace {

const TensorFlow* look_up() {
  void* library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return nullptr;
  static TensorFlow found;
  bool is_whole = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    is_whole = is_whole && function;
  };
#define FIND(name) find(found.name, "TF_" #name)
  FIND(NewStatus);
  FIND(DeleteStatus);
  FIND(SetStatus);
  FIND(GetCode);
  FIND(Message);
  FIND(NewTensor);
  FIND(TensorData);
  FIND(TensorByteSize);
  FIND(DataTypeSize);
  FIND(TensorType);
  FIND(NumDims);
  FIND(Dim);
  FIND(DeleteTensor);
  FIND(NewOpDefinitionBuilder);
  FIND(OpDefinitionBuilderAddAttr);
  FIND(OpDefinitionBuilderAddInput);
  FIND(OpDefinitionBuilderAddOutput);
  FIND(OpDefinitionBuilderSetIsStateful);
  FIND(OpDefinitionBuilderSetShapeInferenceFunction);
  FIND(RegisterOpDefinition);
  FIND(NewShapeHandle);
  FIND(ShapeInferenceContextScalar);
  FIND(DeleteShapeHandle);
  FIND(ShapeInferenceContextGetInput);
  FIND(ShapeInferenceContextSetOutput);
  FIND(ShapeInferenceContextSetUnknownShape);
  FIND(NewKernelBuilder);
  FIND(NewAsyncKernelBuilder);
  FIND(RegisterKernelBuilder);
  FIND(OpKernelConstruction_GetAttrSize);
  FIND(OpKernelConstruction_GetAttrString);
  FIND(OpKernelConstruction_Failure);
  FIND(OpKernelConstruction_GetAttrInt32);
  FIND(OpKernelConstruction_GetAttrInt64);
  FIND(OpKernelConstruction_GetAttrInt32List);
  FIND(NumInputs);
  FIND(NumOutputs);
  FIND(ExpectedOutputDataType);
  FIND(GetInput);
  FIND(AllocateOutput);
  FIND(SetOutput);
  FIND(OpKernelContext_Failure);
#undef FIND
  return is_whole ? &found : nullptr;
}

}  // namespace

const TensorFlow* tensorflow() {
  static const TensorFlow* const found = look_up();
  return found;
}

}  // namespace autodist
