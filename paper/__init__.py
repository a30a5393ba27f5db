"""The paper beside the package: its method's variants as plug-ins, its experiments and results."""
